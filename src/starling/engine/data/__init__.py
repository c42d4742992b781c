"""Data-parallel training: each worker computes batches of its own, sampled from its part and, where needed, from others'."""
