"""Link prediction as a run: edges in place of labels, alone and by a team."""
