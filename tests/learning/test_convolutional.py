"""The convolutional network as a learner; what needs PyTorch is skipped without it."""

import dataclasses
import importlib.util
import json

import numpy as np
import pytest

from p2p_sim.base.errors import InputError
from p2p_sim.base.streams import Streams
from p2p_sim.figures.privacy_utility import plot_privacy_utility
from p2p_sim.learning import networks
from p2p_sim.learning.convolutional import ConvolutionalConfig
from p2p_sim.learning.learner import one_hot
from p2p_sim.learning.local_averages import KnnConfig
from p2p_sim.learning.metrics import measured, predict
from p2p_sim.learning.networks import CHECKPOINTS, Settings, Training, image_shape
from p2p_sim.measures.point_means import points
from p2p_sim.measures.summary import excess_error, summarise
from p2p_sim.mechanisms.outcome import LabelRelease
from p2p_sim.population.drawn_features import CircleConfig
from p2p_sim.population.population import Population
from p2p_sim.replicate import learn
from p2p_sim.replicate import run as experiment
from p2p_sim.report.columns import with_failures
from p2p_sim.report.description import key_figures
from p2p_sim.results.results_directory import load_results
from p2p_sim.scenario import Scenario
from p2p_sim.sweeps.run_scenario import run_all
from tests.learning.received import received

pytestmark = pytest.mark.figures

SIDE, CLASSES = 16, 3
with_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install -e '.[deep]'"
)


def images(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Grey noise with a bright stripe whose place says the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count).astype(np.uint8)
    pixels = 0.3 * rng.random((count, SIDE, SIDE), dtype=np.float32)
    for row, label in enumerate(labels):
        pixels[row, 5 * label : 5 * label + 4] += 0.7
    return pixels.reshape(count, -1), labels


def settings(**changes) -> Settings:
    first = Settings("simple", (1, SIDE, SIDE), False, 4, 32, 1e-2, 5, 1, "cpu")
    return dataclasses.replace(first, **changes)


def task(**changes) -> Training:
    pixels, labels = images(120)
    return Training(settings(**changes), pixels, np.eye(CLASSES, dtype=np.float32)[labels])


def weights(network) -> list[np.ndarray]:
    return [value.numpy().copy() for value in network.state_dict().values()]


def same(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_without_pytorch_one_line_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"^learner\.kind = 'convolutional': needs PyTorch, about 200 MB .*\[deep\]' in"
    ):
        ConvolutionalConfig().check_installed()
    pixels, labels = images(3)
    with pytest.raises(InputError, match="deep"):
        ConvolutionalConfig().fit(pixels, one_hot(labels, CLASSES))


@pytest.mark.parametrize("features", [50, 225, 2 * 28**2])
def test_features_that_are_no_images_are_refused(features):
    with pytest.raises(InputError, match=f"{features} features a user are no square image.*pca_dims"):
        image_shape(features)


def test_the_seed_is_the_replicates_unless_it_is_given():
    learner = ConvolutionalConfig()
    seeds = {learner.seeded(Streams(1, replicate)).seed for replicate in range(5)}
    assert len(seeds) == 5
    assert learner.seeded(Streams(1, 3)).seed == learner.seeded(Streams(1, 3)).seed
    assert ConvolutionalConfig(seed=7).seeded(Streams(1, 3)).seed == 7


def test_without_a_reference_its_columns_are_empty_and_everything_stands_it(tmp_path, monkeypatch):
    def alone(population, private, nonprivate):
        return predict(population, private, None)

    monkeypatch.setattr(learn, "predict", alone)
    tree = {
        "name": "alone", "engine": "vectorised", "replicates": 2, "population": {"kind": "circle", "users": 300},
        "mechanism": {"kind": "alibi", "target_epsilon": 2.0}, "learner": {"kind": "knn"},
    }  # fmt: skip
    rows = run_all(Scenario.from_tree(tree), tmp_path / "out")
    assert rows["nonprivate_error_rate"].isna().all()
    assert rows["error_rate"].notna().all()
    for table in (rows, load_results(tmp_path / "out")):
        assert excess_error(table) is None
        record = json.loads(json.dumps(summarise(table)))
        assert "error_rate" in record
        assert not {"nonprivate_error_rate", "excess_error_rate"} & set(record)
        line = points(table)
        assert line["accuracy"].notna().all()
        assert line[["nonprivate_accuracy", "relative_accuracy", "excess_error_rate"]].isna().all(axis=None)
        assert not [card for card in key_figures(with_failures(table, [])) if "without privacy" in card.heading]
    plot_privacy_utility(rows, "alone", tmp_path / "alone.png")
    assert (tmp_path / "alone.png").stat().st_size > 10_000


def test_a_single_figure_is_that_of_both():
    sample = CircleConfig(users=200, num_classes=4, holdout=300).sample((), Streams(3, 0))
    people = Population(sample.users.features, sample.users.labels, np.array([0, 200]), 4, sample.holdout)
    one, two = (KnnConfig(neighbours=k).fit(people.features, one_hot(people.labels, 4)) for k in (5, 150))
    both, alone = measured(predict(people, one, two)), measured(predict(people, one, None))
    assert alone == dataclasses.replace(both, nonprivate_error_rate=None)
    assert both.nonprivate_error_rate == measured(predict(people, two, None)).error_rate


@with_torch
@pytest.mark.parametrize("kind", ["hard", "soft", "bits"])
def test_it_learns_from_labels_of_each_kind(kind):
    pixels, labels = images(300)
    vectors = one_hot(labels, CLASSES).astype(np.float32)
    payload = {"hard": labels, "soft": 0.8 * vectors + 0.2 / CLASSES, "bits": np.packbits(vectors > 0, axis=1)}[kind]
    release = LabelRelease(np.arange(100, 300, dtype=np.int32), payload[100:], kind)
    found = ConvolutionalConfig(epochs=12, batch=20).learn(received(pixels, release, CLASSES))
    probabilities = found.probabilities(pixels[:100])
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(100))
    # labels that say nothing of the pixels would be met with chance 1/3: 80 of 100 has probability below 1e-20
    assert np.count_nonzero(probabilities.argmax(axis=1) == labels[:100]) >= 80


@with_torch
@pytest.mark.parametrize("kept", [0, 1])
def test_hardly_any_label_is_no_error(tmp_path, monkeypatch, kept):
    monkeypatch.setenv(CHECKPOINTS, str(tmp_path))
    pixels, labels = images(5)
    release = LabelRelease(np.arange(kept, dtype=np.int32), labels[:kept], "hard")
    found = ConvolutionalConfig(epochs=1).learn(received(pixels, release, CLASSES)).probabilities(pixels)
    assert found.sum(axis=1) == pytest.approx(np.ones(5))


@with_torch
def test_bits_have_sigmoids_of_their_own_and_soft_labels_one_distribution():
    pixels = images(400)[0]
    always = np.ones((400, CLASSES), np.float32)  # all bits set: sigmoids can say so, a softmax cannot
    found = [
        networks.predicted(Training(settings(bits=bits), pixels, always).run(), pixels, settings(bits=bits))
        for bits in (True, False)
    ]
    assert found[0].min() > 0.9
    assert found[1].sum(axis=1) == pytest.approx(np.ones(400))


@with_torch
def test_cross_entropy_with_soft_targets_is_what_is_minimised():
    import torch

    rng = np.random.default_rng(1)
    scores, targets = rng.normal(size=(6, CLASSES)), rng.dirichlet(np.ones(CLASSES), 6)
    soft = -np.mean(np.sum(targets * (scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)), axis=1))
    bits = np.mean(np.logaddexp(0.0, scores) - targets * scores)
    given = torch.tensor(scores), torch.tensor(targets)
    assert float(torch.nn.functional.cross_entropy(*given)) == pytest.approx(soft)
    assert float(torch.nn.functional.binary_cross_entropy_with_logits(*given)) == pytest.approx(bits)


@with_torch
def test_the_same_seed_gives_the_same_bits_and_leaves_no_trace():
    import torch

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first = weights(task().run())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.rand(3)  # whatever others draw does not matter
    assert same(first, weights(task().run()))
    assert not same(first, weights(task(seed=6).run()))  # control


def interrupted(monkeypatch, after: int) -> None:
    """A training that is killed right after its checkpoint of an epoch."""
    keep = Training._keep

    def stop(self, network, optimizer, epoch):
        keep(self, network, optimizer, epoch)
        if epoch == after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "_keep", stop)
        with pytest.raises(KeyboardInterrupt):
            task().run()


def counted(monkeypatch) -> list[int]:
    """Grows by one with every epoch that is run."""
    epochs, real = [], networks._epoch
    monkeypatch.setattr(networks, "_epoch", lambda *given: epochs.append(1) or real(*given))
    return epochs


@with_torch
@pytest.mark.parametrize("after", [1, 3, 4])
def test_an_interrupted_training_ends_with_the_same_model(tmp_path, monkeypatch, after):
    whole = weights(task().run())
    monkeypatch.setenv(CHECKPOINTS, str(tmp_path))
    interrupted(monkeypatch, after)
    epochs = counted(monkeypatch)
    assert same(whole, weights(task().run()))
    assert len(epochs) == 4 - after
    assert same(whole, weights(task().run()))  # a finished one is not trained again
    assert len(epochs) == 4 - after
    assert len(list(tmp_path.iterdir())) == 1


@with_torch
@pytest.mark.parametrize("lost", ["optimizer", "random numbers"])
def test_a_resumption_that_forgets_something_is_seen(tmp_path, monkeypatch, lost):
    import torch

    whole = weights(task().run())
    monkeypatch.setenv(CHECKPOINTS, str(tmp_path))
    interrupted(monkeypatch, 2)
    if lost == "optimizer":
        monkeypatch.setattr(torch.optim.Adam, "load_state_dict", lambda self, state: None)
    else:
        seed = networks._seed
        monkeypatch.setattr(networks, "_seed", lambda number, epoch: seed(number, max(0, epoch - 2)))
    assert not same(whole, weights(task().run()))


@with_torch
def test_checkpoints_are_told_apart_by_everything_that_matters(tmp_path, monkeypatch):
    monkeypatch.setenv(CHECKPOINTS, str(tmp_path))
    other = task().targets.copy()
    other[0] = other[0][::-1] if other[0][0] != other[0][-1] else 0.0
    variants = [task(), task(seed=6), task(epochs=5), task(bits=True), task(threads=2)]
    variants += [dataclasses.replace(task(), targets=other), dataclasses.replace(task(), images=task().images + 1)]
    assert len({variant.path for variant in variants}) == len(variants)
    path = task().path
    assert path == task().path
    path.write_bytes(b"half a checkpo")
    with pytest.raises(InputError, match="cannot be read as a checkpoint"):
        task().run()


@with_torch
def test_resnet18_has_its_published_size_and_trains():
    from p2p_sim.learning.networks import build

    network = build("resnet18", (3, 32, 32), 10)
    assert sum(part.numel() for part in network.parameters()) == 11_173_962  # with a 3x3 stem and ten classes
    pixels, labels = images(6)
    config = ConvolutionalConfig(architecture="resnet18", epochs=1, device="cpu")
    assert config.fit(pixels, one_hot(labels, CLASSES)).probabilities(pixels).shape == (6, CLASSES)


@with_torch
def test_a_gpu_that_is_not_there_is_refused():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r"learner\.device"):
        ConvolutionalConfig(device="cuda").check_installed()


@with_torch
def test_the_reference_can_be_left_out_and_is_otherwise_trained_once(tmp_path, monkeypatch):
    pixels, labels = images(90)
    lines = [",".join([*(f"{p:.3f}" for p in row), str(label)]) for row, label in zip(pixels, labels, strict=True)]
    header = ",".join([*(f"p{i}" for i in range(SIDE**2)), "y"])
    (tmp_path / "images.csv").write_text("\n".join([header, *lines]))
    tree = {
        "name": "images", "engine": "vectorised", "replicates": 1, "clusters": {"kind": "kmeans", "count": 1},
        "population": {"kind": "table", "path": "images.csv", "label": "y"},
        "learner": {"kind": "convolutional", "epochs": 1},
    }  # fmt: skip
    epochs, scenarios = counted(monkeypatch), []
    for kind in ("vector_approximation", "alibi"):
        mechanism = {"kind": kind, "target_epsilon": 2.0}
        scenarios.append(Scenario.from_tree({**tree, "mechanism": mechanism}, tmp_path))
    rows = [experiment.run(one).row for one in scenarios]
    assert rows[0]["nonprivate_error_rate"] == rows[1]["nonprivate_error_rate"] is not None
    assert len(epochs) == 3
    row = experiment.run(scenarios[0].replace(**{"learner.nonprivate": False})).row
    assert row["nonprivate_error_rate"] is None
    assert row["error_rate"] == rows[0]["error_rate"]
