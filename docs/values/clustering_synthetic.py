"""The clustering paper's mechanisms on a law that is known in full."""

from docs.values.forms import interval, published, short

SOURCE = ("python -m analysis.heterogeneity", "analysis/test_published.py::test_the_mechanisms_on_a_known_law")
KEYS = ["mechanism", "population.heterogeneity", "mechanism.target_epsilon"]

points = published("clustering-synthetic").set_index(KEYS).sort_index()
risk = points["excess_risk"]
_risks = risk.map(lambda mean: short(mean, 4))
response, exchange = _risks["UniformRR (nobody)"], _risks["label exchange (nobody)"]
optimised, half = (_risks[f"ClusterRR, {name} (curator)"] for name in ("optimised split", "half each, τ = φ"))
gain = short(risk["UniformRR (nobody)", 0.0, 0.5] - risk["ClusterRR, optimised split (curator)", 0.0, 0.5])
loss = short(risk["ClusterRR, half each, τ = φ (curator)", 0.4, 2.0] - risk["UniformRR (nobody)", 0.4, 2.0])
_at_4 = points.loc["label exchange (nobody)"].xs(4.0, level=KEYS[2])
measured = interval(*_at_4.loc[0.4, ["excess_risk", "excess_risk_low", "excess_risk_high"]])
floors = {
    phi: interval(*_at_4.loc[phi, [f"excess_risk_floor{end}" for end in ("", "_low", "_high")]], digits)
    for phi, digits in ((0.4, 3), (0.2, 3), (0.1, 4))
}
known = {phi: short(phi**2 / 2.4, 4) for phi in floors}
