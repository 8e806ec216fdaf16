"""Certificates: files with all that is needed to check one (ε, δ) of the label exchange without this package."""
