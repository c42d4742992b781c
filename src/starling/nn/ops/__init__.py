"""Fused operations with hand-written gradients, registered with autograd; `plain` holds their twins in ordinary torch."""
