"""Other libraries' graph objects as raw graphs, one file a library; none of the libraries is imported."""
