"""The world: logs on disk, agents, data sets, telemetry and the command line. Thin: translate, do not decide."""
