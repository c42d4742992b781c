"""Cohesive mini-batches (CM-GCN): targets grouped so that an epoch computes as little as possible."""
