"""Plots: functions that draw tables and do no other work."""
