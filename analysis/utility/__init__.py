"""Heterogeneity, risk and intervals: what a release is worth."""
