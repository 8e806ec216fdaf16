"""Searching the settings of a scenario for the best one that meets a goal."""
