"""What one worker computes of a layer: its edges, by whose rows they read."""
