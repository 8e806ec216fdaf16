"""The commands parse options and print results; other packages do all other work."""
