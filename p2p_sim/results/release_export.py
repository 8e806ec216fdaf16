"""A scenario's releases, or the messages of its replicates, as one file for other tools."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from p2p_sim.base import InputError, check_new, in_place_of, without_formulas, writing
from p2p_sim.exchange import KIND_NAMES
from p2p_sim.replicate import Replicate, exchange
from p2p_sim.scenario import Scenario

FORMATS = (".csv", ".parquet", ".npz")


def check_destination(option: str, path: Path) -> None:
    """Raise an InputError that names the option if the file `path` cannot be written, or exists already."""
    if path.suffix not in FORMATS:
        raise InputError(f"{option} {path}: must end in {', '.join(FORMATS)}")
    check_new(option, path)
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option} {path}: {path.parent} cannot be written to")


def check_release(scenario: Scenario) -> None:
    """Raise an InputError if the mechanism releases no labels: only labels can be exported."""
    if scenario.mechanism.releases in ("model", "density"):
        raise InputError(
            f"mechanism.kind = {scenario.mechanism.kind!r}: releases a {scenario.mechanism.releases}, and --export "
            "writes labels; leave --export out"
        )


def check_transcript(scenario: Scenario) -> None:
    """Raise an InputError if messages carry bits, class probabilities or numbers: a transcript holds classes."""
    if scenario.mechanism.releases in ("bits", "soft", "values"):
        raise InputError(
            f"mechanism.randomizer: a transcript holds one class a message, not {scenario.mechanism.releases}; leave "
            "out --transcript, or export the release"
        )


def export_release(scenario: Scenario, path: Path, data_dir: Path | None = None) -> int:
    """Write what the learner receives in all replicates into a file, and return the number of lines.

    The file ends in .csv, .parquet or .npz. `data_dir`: where data files are.

    The columns are replicate, user, cluster, label and features (x0, x1, ...). A label of several numbers (signed
    weights, probabilities, bits) has a column for each: label_0, label_1, ... Users are numbered cluster by cluster.
    """
    return _write(pd.concat(_releases(scenario, data_dir), ignore_index=True), path)


def export_transcript(scenario: Scenario, path: Path, data_dir: Path | None = None) -> int:
    """Write every delivered message of all replicates into a file, and return the number of messages.

    The columns are replicate, time in seconds, kind, sender, receiver, label and late. A late reply came after the
    request's deadline, and was dropped. The learner is user -1 and sees the messages that it receives. A peer sees what
    she sends or receives, an eavesdropper all lines. Requests, and messages that carry a model, have label -1. The
    scenario needs messages that carry a class or a model.

    Args:
        scenario: what is run. path: the file, which ends in .csv, .parquet or .npz. data_dir: where data files are.
    """
    check_transcript(scenario)
    return _write(pd.concat(_transcripts(scenario, data_dir), ignore_index=True), path)


def _releases(scenario: Scenario, data_dir: Path | None) -> Iterator[pd.DataFrame]:
    """Yields each replicate's release, a line for each label that the learner receives."""
    for replicate in range(scenario.replicates):
        completed = exchange(Replicate(scenario, replicate, data_dir))
        release, population = completed.outcome.labels, completed.population
        cluster = np.searchsorted(population.cluster_offsets, release.user, side="right") - 1
        labels = release.payload
        if release.kind == "bits":
            labels = np.unpackbits(labels.astype(np.uint8), axis=1, count=population.num_classes)
        names = {"label": labels} if labels.ndim == 1 else {f"label_{k}": labels[:, k] for k in range(labels.shape[1])}
        frame = pd.DataFrame({"replicate": replicate, "user": release.user, "cluster": cluster, **names})
        features = population.features[release.user]
        columns = pd.DataFrame(features, columns=[f"x{i}" for i in range(features.shape[1])])
        yield pd.concat([frame, columns], axis=1)


def _transcripts(scenario: Scenario, data_dir: Path | None) -> Iterator[pd.DataFrame]:
    """Yields each replicate's messages, a line for each delivered message."""
    for replicate in range(scenario.replicates):
        transcript = exchange(Replicate(scenario, replicate, data_dir), record=True).outcome.transcript
        if transcript is None:
            raise InputError(
                f"mechanism.kind = {scenario.mechanism.kind!r}: a transcript needs messages; this mechanism has none"
            )
        messages = transcript.messages
        kind = np.array(["", *KIND_NAMES.values()])[messages.kind]
        yield pd.DataFrame(
            {"replicate": replicate, "time_s": messages.time_s, "kind": kind, "sender": messages.sender,
             "receiver": messages.receiver, "label": messages.label, "late": messages.late}
        )  # fmt: skip


def _write(frame: pd.DataFrame, path: Path) -> int:
    """Write a frame as CSV, Parquet or NumPy arrays, by the ending of `path`, and return the number of lines."""
    with writing(path), in_place_of(path) as partial, partial.open("wb") as file:
        if path.suffix == ".csv":
            without_formulas(frame).to_csv(file, index=False)
        elif path.suffix == ".parquet":
            frame.to_parquet(file, index=False)
        else:
            arrays: dict[str, Any] = {name: _plain(frame[name].to_numpy()) for name in frame.columns}
            np.savez_compressed(file, **arrays)
    return len(frame)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """A column as an array that NumPy can read back without pickling. Numbers and truth values stay unchanged; other
    values become texts, which are cut to 16 characters.
    """
    return values if values.dtype.kind in "biuf" else values.astype("U16")
