"""Questions as the command line and the explorer ask them: the answers, and how they are told."""
