"""Benchmarks: ratios measured side by side in one process; `make bench` runs them all."""
