"""What will be done before it is done: parts to make, memory they take, nodes and edges of every training step."""
