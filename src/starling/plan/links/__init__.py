"""Link prediction before any model: which edges are targets of a step, which pairs stand against them, which are held out."""
