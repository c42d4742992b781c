"""The layers, one a file. Each declares its settings beside it; `registry.py` lists them."""
