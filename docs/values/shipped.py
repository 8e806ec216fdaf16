"""The shipped scenarios and sweeps."""

from docs.values.forms import published

SOURCE = ("python -m analysis.shipped", "analysis/test_published_shipped.py::test_the_shipped_study")
SOURCES = {"quickstart": ("make run", "cli/test_commands.py::test_quickstart_shows_what_the_readme_says")}

runs = published("shipped").set_index("panel")
quickstart, batch = runs.loc["quickstart"], runs.loc["batch"]
heterogeneity, users = runs.loc["heterogeneity"], runs.loc["users"]
to_floor = (heterogeneity["excess_risk"] - heterogeneity["excess_risk_floor"]).abs().max()
fits = published("shipped", "fits.csv").set_index(["form", "of"])
squares, bound = fits.loc["squares", "φ²"], fits.loc["Theorem 4's form", "φ"]
slope = fits.loc["power of n", "distance from the floor"]
