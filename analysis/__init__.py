"""Studies made with p2p-sim. Each study is a module that runs as `python -m analysis.<study>`."""
