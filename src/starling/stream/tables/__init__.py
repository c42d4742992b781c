"""Node and edge tables on the way in: checked, set down, put in the order of the nodes. Start with `node_tables`."""
