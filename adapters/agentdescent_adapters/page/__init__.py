"""A run as one self-contained HTML page, from its log alone: no network, no script needed to read it."""
