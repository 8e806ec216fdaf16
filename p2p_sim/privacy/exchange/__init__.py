"""The label exchange in one cluster: exact values, certified bounds, the paper's bounds."""
