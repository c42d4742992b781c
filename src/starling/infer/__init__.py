"""Exact inference for every node, layer by layer, and its results."""

from starling.core.environment import prefer_huge_pages, wait_without_spinning

prefer_huge_pages()
wait_without_spinning()
