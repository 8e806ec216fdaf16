"""What every room may use: configuration, files, errors, random streams, plug-ins, progress."""
