"""What evolves: an ordered tuple of (key, text), the ops that change it, and strategies that read and write it."""
