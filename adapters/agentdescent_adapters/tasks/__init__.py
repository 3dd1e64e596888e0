"""Tasks from local files, and how their outputs are scored."""
