"""Slow and obvious counterparts of the fast code."""
