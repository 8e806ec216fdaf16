"""Certificates: files from which one (ε, δ) of the label exchange can be checked without this package."""
