"""What a run tells while it goes on: progress for people, status and rounds as files, events as structured lines."""
