"""Who owns each node and each edge: partitioning methods behind one contract, and measures of what they give."""
