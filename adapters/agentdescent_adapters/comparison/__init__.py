"""Allocators compared on one workload: which runs there are, how each is performed and measured, what they come to.

Every run has a directory of its own, NAME/ARM-SEED, so a comparison that was interrupted goes on where it ended.
"""
