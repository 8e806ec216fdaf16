"""Asking several peers beside the label exchange."""

from docs.values.forms import published, short

SOURCE = ("python -m analysis.ask_several", "analysis/test_ask_several.py::test_the_study_gives_the_published_table")
WAYS = ("label exchange (ask 1)", "ask 3", "ask 5", "half ask 1, half ask 5")
SETTINGS = ((50, 0.1), (200, 0.05), (200, 0.1), (200, 0.2))

_found = published("ask-several").set_index(["cluster_size", "flip_prob", "way"])


def _small(value: float) -> str:
    return short(value) if value >= 0.01 else short(value, 4)


table = [
    [str(at[0]), f"{at[1]:g}"[1:]]
    + [
        text
        for way in WAYS
        for text in (short(_found.loc[(*at, way), "epsilon_upper"]), _small(_found.loc[(*at, way), "error"]))
    ]
    for at in SETTINGS
]
