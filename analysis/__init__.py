"""What is found out with p2p-sim. Each question has its own module, which is run as `python -m analysis.<question>`."""
