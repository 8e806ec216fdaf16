"""Many experiments: expand axes, run in parallel, keep every finished row."""
