"""Worlds with known truth, behind the ports of a real agent: what a call answers, costs and takes is a function of the
seed, the artifact and the task."""
