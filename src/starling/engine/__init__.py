"""Executes plans: a graph's features, labels and edges are put into what a plan names."""

from starling.core.environment import prefer_huge_pages, wait_without_spinning

prefer_huge_pages()
wait_without_spinning()
