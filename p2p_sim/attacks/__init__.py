"""Audits: attacks on the simulated exchange, on faulty networks and on a curator."""
