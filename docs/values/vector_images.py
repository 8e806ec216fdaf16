"""Networks on MNIST, with the paper's numbers in brackets."""

import pandas as pd

from analysis.vector import ALIBI, PRINTED, RESPONSE, TWO_STAGES, VECTOR
from docs.values.forms import published

SOURCE = (
    "p2p-sim sweep scenarios/sweeps/vector/mnist.toml",
    "learning/test_convolutional.py::test_the_reference_can_be_left_out_and_is_otherwise_trained_once",
)
LOCAL = (VECTOR, RESPONSE, TWO_STAGES, ALIBI)

_parts = [published(f"vector/{folder}", "rows.parquet") for folder in ("mnist-eps05", "mnist-eps1")]
assert all(len(part) == len(LOCAL) for part in _parts)  # a single training each
reference = 1.0 - pd.concat(_parts)["nonprivate_error_rate"].unique().item()
table = []
for _part in _parts:
    _epsilon, _errors = _part["epsilon_upper"].max(), _part.set_index("mechanism")["error_rate"]
    _printed = [PRINTED["mnist", name][round(_epsilon, 6)] for name in LOCAL]
    _cells = [f"{1.0 - _errors[name]:.3f} ({paper:.3f})" for name, paper in zip(LOCAL, _printed, strict=True)]
    table.append([f"{_epsilon:g}", *_cells])
