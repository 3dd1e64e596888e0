"""What happened: the format of the log, replay and divergence, and projections of a log."""
