"""What one worker holds of a graph: rows and mirrors, features, labels and edge tables."""
