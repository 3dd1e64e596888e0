"""What is kept: staleness, conflict, fusion, the held-out gate and acceptance."""
