"""Which rows and edges a step computes on: the strategies of one process, planned by all workers together."""
