"""Asking several peers beside the label exchange."""

from docs.values.forms import interval, published, short

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

_digits = published("ask-several", "digits.csv").set_index(["flip_prob", "peers"])
digits = [
    [
        f"{alpha:g}"[1:],
        *(short(_digits.loc[(alpha, 3), name]) for name in ("epsilon_one", "accuracy_one")),
        *(
            text
            for k in (3, 5)
            for text in (
                short(_digits.loc[(alpha, k), "epsilon_several"]),
                interval(*(_digits.loc[(alpha, k), name] for name in ("gain", "gain_low", "gain_high"))),
            )
        ),
    ]
    for alpha in (0.1, 0.2, 0.3)
]
replicates = int(_digits["replicates"].min())
