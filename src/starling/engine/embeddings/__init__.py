"""Trainable node embeddings: sparse parameters that live with the owner of their node."""
