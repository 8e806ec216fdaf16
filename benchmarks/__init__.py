"""Benchmarks: ratios measured side by side in one process; `make bench` runs them all."""

import os

os.environ["P2P_SIM_CACHE"] = "off"  # what is measured is computed
