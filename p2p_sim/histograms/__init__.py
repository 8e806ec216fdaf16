"""Histogram classifiers and density estimates that are private and consistent for every law (Bousquet et al. 2022)."""
