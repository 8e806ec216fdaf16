"""What every package may use: configuration, files, errors, random streams, plug-ins, progress."""
