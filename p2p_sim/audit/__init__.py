"""Audits: attacks on the simulated exchange, small and at full size, on local mechanisms, models and a curator."""
