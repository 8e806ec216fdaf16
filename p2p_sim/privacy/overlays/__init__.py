"""The exchange over any fetch distribution, and over a network as it turned out."""
