"""Executes plans: a graph's features, labels and edges are put into what a plan names."""

from starling.core.environment import prefer_huge_pages

prefer_huge_pages()
