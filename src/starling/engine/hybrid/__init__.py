"""Hybrid parallelism: all workers compute one plan together, each its own nodes (GraphTheta §4, BNS-GCN)."""
