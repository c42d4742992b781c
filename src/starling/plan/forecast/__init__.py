"""What a run will need, before it runs: memory, traffic and time of every way to train, and which of them fits."""
