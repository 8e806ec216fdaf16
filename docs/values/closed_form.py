"""The closed form beside the smallest flip probability."""

from docs.values.forms import published, up

SOURCE = ("python -m analysis.closed_form", "analysis/test_published_privacy.py::test_the_closed_form_study")
REGIMES = ("ε < .7 θ", "ε > 1.5 θ", "between")

_found = published("closed-form")
cells = _found.groupby(["regime", "delta"])["factor"]
_at = {key: f"{factors.median():.1f}, {factors.max():.1f}" for key, factors in cells}
factors = [[_at[regime, delta] for delta in (1e-12, 1e-9, 1e-6, 1e-3)] for regime in REGIMES]
outside = _found[_found["regime"].isin(REGIMES[:2]) & (_found["delta"] <= 1e-9)]["factor"]
most = up(outside.max(), 1)
large = _found[_found["regime"].isin(REGIMES) & (_found["delta"] == 0.1)]["factor"]
small = _found[(_found["regime"] == "n < 100") & (_found["delta"] <= 1e-3)]
failed = small[small["local"]]
