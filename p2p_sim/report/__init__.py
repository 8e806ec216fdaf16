"""The report: rows, a manifest and failures as one HTML page that needs nothing else."""
