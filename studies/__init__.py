"""Studies that are published with the project: each runs sweeps, and draws a figure and a table from their rows."""
