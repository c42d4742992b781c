"""GraphSAINT: sub-graphs drawn by nodes, edges or walks, and the normalisation that makes them unbiased."""
