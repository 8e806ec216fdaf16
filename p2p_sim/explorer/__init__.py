"""The explorer: a local web application on 127.0.0.1 that shows privacy, results, running sweeps and exchanges."""
