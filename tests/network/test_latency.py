"""Quantiles invert the distribution functions; traces are read as they are and faults are named by their line."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.network.latency import Constant, Exponential, LatencyConfig, LatencyLaw, LatencyTrace, Lognormal, Recorded
from p2p_sim.network.network_config import NetworkConfig

EDGES = np.array([0.0, 2.0**-53, 1e-9, 0.25, 0.5, 0.75, 1 - 1e-9, 1 - 2.0**-53])
RECORDED = Recorded(np.array([0.0, 0.1, 0.1, 0.7, 3.0]))
LAWS: list[LatencyLaw] = [
    Constant(value_s=0.3), Exponential(mean_s=2.0), Lognormal(median_s=0.5, sigma=0.8), Lognormal(sigma=0.0), RECORDED
]  # fmt: skip


def written(folder: Path, text: str | bytes) -> tuple[Path, ...]:
    (folder / "trace.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return (folder,)


@pytest.mark.parametrize(
    ("law", "same"),
    [
        (Exponential(mean_s=2.0), stats.expon(scale=2.0)),
        (Lognormal(median_s=0.5, sigma=0.8), stats.lognorm(s=0.8, scale=0.5)),
    ],
)
def test_quantiles_are_those_of_scipy(law, same):
    assert law.quantile(EDGES) == pytest.approx(same.ppf(EDGES), rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_quantiles_are_finite_and_rise_and_keep_their_argument(law):
    u = EDGES.copy()
    times = law.quantile(u)
    assert np.array_equal(u, EDGES)
    assert np.isfinite(times).all()
    assert (np.diff(times) >= 0).all()
    assert times.min() >= 0
    assert law.quantile(np.zeros((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("law", LAWS)
def test_sample_and_quantile_have_the_stated_mean_and_one_variance(law):
    """False alarm 2e-9 a case (6.2 standard errors, 1e6 numbers); a mean 2% off is the control."""
    streams, size = Streams(3, 0), 1_000_000
    drawn = law.sample(streams.generator("a"), size), law.quantile(streams.uniforms("a").at(np.arange(size)))
    assert drawn[0].var() == pytest.approx(drawn[1].var(), rel=0.05)
    for times in drawn:
        error = 6.2 * times.std() / np.sqrt(size)
        assert abs(times.mean() - law.mean) <= error + 1e-12
        if times.std() > 1e-12:
            assert abs(times.mean() - 1.02 * law.mean) > error


def test_sampling_has_not_changed():
    """Rows of finished runs depend on these numbers."""
    for law, same in ((Exponential(mean_s=2.0), lambda r: r.exponential(2.0, 9)),
                      (Lognormal(median_s=0.5), lambda r: r.lognormal(np.log(0.5), 0.5, 9)),
                      (Constant(), lambda r: np.full(9, 0.05))):  # fmt: skip
        assert np.array_equal(law.sample(np.random.default_rng(1), 9), same(np.random.default_rng(1)))


def test_a_recorded_law_gives_every_value_its_share():
    m = 7
    law = Recorded(np.arange(float(m)))
    u = (np.arange(70) + 0.5) / 70
    assert np.array_equal(law.quantile(u), np.repeat(np.arange(m), 10))
    assert Recorded(np.arange(3.0)).quantile(np.array([1 - 2.0**-53])).tolist() == [2.0]
    assert law.mean == 3.0


@pytest.mark.parametrize(
    "text",
    [
        "latency_s\n0.3\n0.1\n2\n",
        "0.5ms_free\n3e-1\n\n.1\n+2\n",
        "from,latency_s,to\na,0.3,b\nb, 0.1,\n,2,c",
        "\ufefflatency_s\r\n0.3\r\n0.1\r\n2\r\n",
    ],
)
def test_a_trace_is_read(tmp_path, text):
    config = TypeAdapter(LatencyConfig).validate_python({"kind": "trace", "path": "trace.csv"})
    places = written(tmp_path, text)
    assert NetworkConfig(latency=config).files(places) == [tmp_path / "trace.csv"]
    law = config.load(places)
    assert law.values.tolist() == [0.1, 0.3, 2.0]
    assert law.mean == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("latency_s\n0.1\n-0.2\n", "line 3: latency_s = '-0.2' must be a number from 0 to 1e9"),
        ("latency_s\n0.1\n\nnan\n", "line 4: latency_s = 'nan'"),
        ("latency_s\ninf\n", "line 2: latency_s = 'inf'"),
        ("latency_s\n1e10\n", "line 2: latency_s = '1e10'"),
        ("a,latency_s\n1,0.1\n1\n", "line 3: latency_s = ''"),
        ("latency_s\n1_0\n", "line 2: latency_s = '1_0'"),
        ("ms\nfast\n", "line 2: ms = 'fast'"),
        ("a,b\n1,2\n", "one column 'latency_s' in its header line, which has 'a', 'b'"),
        ("latency_s,latency_s\n1,2\n", "one column 'latency_s'"),
        ("0.1\n0.2\n", "one column 'latency_s' in its header line, which has '0.1'"),
        ("", "which has nothing"),
        ("latency_s\n", "has no rows"),
        (b"latency_s\n\xff\n", "cannot be read"),
    ],
)
def test_a_damaged_trace_is_one_clear_line(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        LatencyTrace(path="trace.csv").load(written(tmp_path, text))
    message = str(error.value)
    assert message.startswith(f"network.latency.path = {str(tmp_path / 'trace.csv')!r}: ")
    assert said in message
    assert "\n" not in message


def test_a_missing_trace_is_named(tmp_path):
    with pytest.raises(InputError, match=r"network\.latency\.path = 'none\.csv': no such file"):
        LatencyTrace(path="none.csv").load((tmp_path,))
    with pytest.raises(ValidationError):
        LatencyTrace(path="")
