"""Exact figures in an environment with NumPy and SciPy alone: no other library can be found there."""

import json
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import scipy

import p2p_sim.privacy
from tests.conftest import ROOT

SCRIPT = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from p2p_sim import privacy

def refusal(figure):
    try:
        return figure()
    except ModuleNotFoundError as error:
        return str(error)

exchange = privacy.LabelExchange(cluster_size=200, flip_prob=0.1, sampling_rate=0.5)
twice = lambda: privacy.compose([exchange, exchange], 1e-6).epsilon_upper
steps = lambda: privacy.DpSgd(noise_multiplier=2.0, sampling_rate=0.05, steps=400).epsilon(1e-6).epsilon_upper
print(json.dumps({
    "public": [type(getattr(privacy, name)).__name__ for name in privacy.__all__],
    "epsilon": exchange.epsilon(1e-6).epsilon_upper,
    "delta": exchange.delta(0.5).upper,
    "flip_prob": privacy.calibrate_flip_prob([100, 200], 2, 0.5, 1.0, 1e-6),
    "certificate": privacy.certificate(exchange, 1e-6),
    "twice": refusal(twice),
    "steps": refusal(steps),
    "loaded": sorted({name.partition(".")[0] for name in sys.modules}),
}))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the script finds where NumPy, SciPy and this package are all that can be imported."""
    site = tmp_path_factory.mktemp("site")
    for package in (numpy, scipy):
        folder = Path(package.__file__).parent
        for each in (folder, folder.with_name(f"{folder.name}.libs")):
            if each.exists():
                (site / each.name).symlink_to(each)
    (site / "p2p_sim").symlink_to(ROOT / "p2p_sim")
    call = [sys.executable, "-I", "-S", "-c", SCRIPT, str(site)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=site)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_figures_calibration_and_certificates_compute(alone):
    exchange = p2p_sim.privacy.LabelExchange(cluster_size=200, flip_prob=0.1, sampling_rate=0.5)
    assert alone["epsilon"] == exchange.epsilon(1e-6).epsilon_upper
    assert alone["delta"] == exchange.delta(0.5).upper
    assert alone["flip_prob"] == p2p_sim.privacy.calibrate_flip_prob([100, 200], 2, 0.5, 1.0, 1e-6)
    assert alone["certificate"] == p2p_sim.privacy.certificate(exchange, 1e-6)
    assert len(alone["public"]) == len(p2p_sim.privacy.__all__)


def test_no_other_library_is_loaded(alone):
    others = set(alone["loaded"]) - sys.stdlib_module_names - {"numpy", "scipy", "p2p_sim", "__main__"}
    assert {name for name in others if not name.startswith("_")} <= {"cython_runtime"}


@pytest.mark.parametrize("figure", ["twice", "steps"])
def test_what_needs_dp_accounting_says_so_in_one_line(alone, figure):
    [line] = alone[figure].splitlines()
    assert line.startswith("a privacy loss distribution needs the package dp-accounting: pip install dp-accounting")
