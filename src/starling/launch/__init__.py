"""Starting workers, watching them, and telling in one sentence what ended a run: ``local.py`` here, ``worker.py`` anywhere."""
