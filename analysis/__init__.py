"""What is found out with p2p-sim: a module for each question, run as `python -m analysis.<question>`."""
