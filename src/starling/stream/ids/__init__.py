"""User ids on the way in: set down, numbered, turned into node positions. Start with `positions`."""
