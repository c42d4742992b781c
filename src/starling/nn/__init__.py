"""NN-TGAR layers and models. They see a local graph through a view, and never a rank."""
