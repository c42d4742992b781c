"""Training: tasks, optimisers, the step loop and the run directory."""

from starling.core.environment import prefer_huge_pages, wait_without_spinning

prefer_huge_pages()
wait_without_spinning()
