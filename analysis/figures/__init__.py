"""Plots: they take tables and axes and do no other work."""
