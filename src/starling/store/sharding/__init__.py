"""The steps from an assignment to shards, in the order ../shards.py takes them."""
