"""The command line. Exit codes: 0 done; 1 the run ended with an error; 2 wrong usage; 3 the log is damaged or replay
differs; `ab`: 4 worse, 5 not measurable; 130 and 143 stopped by Ctrl-C or SIGTERM (the run can be resumed)."""
