"""One replicate: from a scenario to a row."""
