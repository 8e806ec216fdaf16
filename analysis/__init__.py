"""What is found out with p2p-sim: a folder for each question, run as `python -m analysis.<question>`."""
