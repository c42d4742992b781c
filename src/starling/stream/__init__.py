"""Getting graphs in and out as streams: readers, importers, bridges, generators."""
