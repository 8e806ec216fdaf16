"""Random and damaged input for all that reads a user's file: no traceback, no hang, nothing left half-written."""
