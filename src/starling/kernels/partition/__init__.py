"""Loops of the partitioners: one file for each family of algorithms."""
