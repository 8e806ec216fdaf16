"""Attacks on a private exchange, and what they prove."""
