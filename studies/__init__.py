"""Studies that are published with the project: each is a function of a frame, and goes on where it was stopped."""
