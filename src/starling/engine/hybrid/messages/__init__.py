"""What moves between workers in a layer: which rows, in which messages, and how what comes is joined."""
