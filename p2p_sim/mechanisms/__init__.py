"""Ways to privatise labels behind one interface."""
