"""Analysis of label exchange: privacy, utility, figures. It imports nothing from the simulator."""
