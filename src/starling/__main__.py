"""``python -m starling`` is the command ``starling``."""

from starling.cli.main import main

main()
