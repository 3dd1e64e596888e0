"""The state machine: spec, command, event, state (initial, apply, due) and decision (decide)."""
