"""NN-TGAR layers and models. They see a local graph through a view, and never a rank."""

from starling.core.allocator import keep_freed_memory
from starling.core.environment import prefer_huge_pages, wait_without_spinning

prefer_huge_pages()
wait_without_spinning()
keep_freed_memory()
