"""How messages reach each other: latencies and the event engine."""
