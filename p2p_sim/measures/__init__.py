"""Heterogeneity, risk and intervals: how useful a release is."""
