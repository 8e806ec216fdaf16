"""What happened to the same users, as a file says it, and what it comes to."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from p2p_sim.analysis.privacy import (
    Accountant,
    DpSgd,
    NoisyScore,
    Poisson,
    PrivacyBound,
    Selection,
    TruncatedNegativeBinomial,
)
from p2p_sim.analysis.privacy.others.run_laws import RunLaw
from p2p_sim.analysis.privacy.statement.bound import Adjacency
from p2p_sim.analysis.privacy.statement.checks import check_delta
from p2p_sim.analysis.privacy.statement.composition import Composition
from p2p_sim.analysis.privacy.statement.worst import OnePoint, WorstOf
from p2p_sim.base.config import Config, refusal
from p2p_sim.base.errors import InputError, shortened
from p2p_sim.base.nearest import nearest
from p2p_sim.base.threads import one_thread
from p2p_sim.base.toml import read_toml
from p2p_sim.cli.questions.privacy import Question, observer_of
from p2p_sim.replicate.case import Case
from p2p_sim.replicate.released import released
from p2p_sim.scenario import Scenario, load_scenario

BESIDE = 1e-3
"""Part of δ that is set aside: beside μ, and for statements at one δ."""
ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0)
"""Orders of the Rényi ε that are shown."""
Times = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class Release:
    """One line of the account. user: of the user who is asked about; the same as `every` where it does not differ.

    drawn_with: what the random numbers of a release of the simulator depend on; of others it is not known.
    """

    label: str
    every: Accountant
    times: int = 1
    user: Accountant | None = None
    drawn_with: str = ""


@dataclass(frozen=True)
class Asked:
    """What a release is asked for besides itself.

    beside: δ of statements at one δ. user: whose account it is, or nobody's. folder, data_dir: where files are.
    """

    beside: float
    user: int | None
    folder: Path
    data_dir: Path | None


class ExchangeRelease(Config):
    """Label exchange in one cluster."""

    kind: Literal["exchange"]
    name: str = ""
    cluster_size: int
    flip_prob: float
    sampling_rate: float = 1.0
    num_classes: int = 2
    observer: str = "learner"
    members: int | None = None
    rounds: int = 1
    """Rounds that repeat the same noisy labels: together one exchange."""
    noise: Literal["fresh", "memoised"] = "fresh"
    times: Times = 1
    """How often it happened, with fresh noise each time."""

    def releases(self, asked: Asked) -> Iterator[Release]:
        """One line."""
        if self.noise == "memoised" and self.times > 1:
            raise InputError(
                f'noise = "memoised" with times = {self.times}: rounds that repeat noise must not be composed; '
                f"give rounds = {self.rounds * self.times} without times, which is one exchange"
            )
        parameters = (self.cluster_size, self.flip_prob, self.sampling_rate, self.observer, self.members, self.rounds)
        try:
            model = observer_of(Question(*parameters, num_classes=self.num_classes))
        except InputError as error:
            raise InputError(re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), str(error))) from None
        yield Release(self.name or f"exchange, {self.cluster_size:,} users", model, self.times)


class DpSgdRelease(Config):
    """Training by DP-SGD with the labels of the same users."""

    kind: Literal["dp_sgd"]
    name: str = ""
    noise_multiplier: float
    sampling_rate: float
    steps: int
    times: Times = 1

    def releases(self, asked: Asked) -> Iterator[Release]:
        """One line."""
        model = DpSgd(self.noise_multiplier, self.sampling_rate, self.steps)
        yield Release(self.name or f"DP-SGD, {self.steps:,} steps", model, self.times)


class StatementRelease(Config):
    """Anything of which ε at one δ is known."""

    kind: Literal["statement"]
    name: str = ""
    epsilon: float = Field(ge=0)
    delta: float = Field(default=0.0, ge=0, lt=1)
    adjacency: Adjacency = "label"
    observer: Literal["learner", "learner-times", "peer", "coalition", "eavesdropper"] = "learner"
    times: Times = 1

    def releases(self, asked: Asked) -> Iterator[Release]:
        """One line."""
        condition = f"ε = {self.epsilon:g} at δ = {self.delta:g} holds for every pair of data sets, as the file says"
        said = (0.0, self.epsilon, self.delta, self.observer, self.adjacency, "as stated", (condition,))
        yield Release(self.name or f"statement, ε = {self.epsilon:g}", OnePoint(PrivacyBound(*said)), self.times)


class SelectionRelease(Config):
    """The best of a random number of runs, chosen by a private score; only this run was released."""

    kind: Literal["selection"]
    name: str = ""
    base: Annotated[ExchangeRelease | DpSgdRelease | StatementRelease, Field(discriminator="kind")]
    """One run."""
    score_noise: float | None = None
    """Scale of the two-sided geometric noise of a count of right predictions; none if `base` covers the score."""
    held_out: bool = True
    """Whether the users who are counted take no part in training."""
    law: Literal["logarithmic", "geometric", "poisson"] = "logarithmic"
    """Of the number of runs."""
    mean_runs: float
    """Mean of this law."""
    times: Times = 1

    def releases(self, asked: Asked) -> Iterator[Release]:
        """One line."""
        [run] = self.base.releases(asked)
        if not isinstance(self.base, DpSgdRelease) and self.base.observer != "learner":
            raise InputError(f"observer = {self.base.observer}: sees every run; a selection releases one, to a learner")
        model: Accountant = run.every if run.times == 1 else Composition((run.every,), (run.times,))
        if self.score_noise is not None:
            score = NoisyScore(self.score_noise)
            model = WorstOf((model, score)) if self.held_out else Composition((model, score), (1, 1))
        law: RunLaw = Poisson(self.mean_runs)
        if self.law != "poisson":
            law = TruncatedNegativeBinomial.of_mean(self.mean_runs, 1.0 if self.law == "geometric" else 0.0)
        label = self.name or f"best of {self.mean_runs:g} runs in the mean, {run.label}"
        yield Release(label, Selection(model, law), self.times)


class ScenarioRelease(Config):
    """Replicates of a scenario, each with noise of its own and a network as it turned out.

    Another scenario of the same users needs a `noise_salt` of its own.
    """

    kind: Literal["scenario"]
    name: str = ""
    scenario: str
    replicates: Times | tuple[int, ...] = 1
    """How many of the first ones, or their numbers, from 0."""

    def releases(self, asked: Asked) -> Iterator[Release]:
        """A line for each replicate."""
        file = asked.folder / self.scenario
        scenario = load_scenario(file if file.exists() else self.scenario)
        chosen = range(self.replicates) if isinstance(self.replicates, int) else self.replicates
        if not chosen or min(chosen) < 0 or len(set(chosen)) < len(chosen):
            raise InputError(f"replicates = {list(chosen)}: must be different numbers, at least 0; noise is drawn once")
        for replicate in chosen:
            yield self._replicate(scenario, replicate, asked)

    def _replicate(self, scenario: Scenario, replicate: int, asked: Asked) -> Release:
        case = Case(scenario, replicate, asked.data_dir)
        every, hers = released(case, asked.beside, asked.user)
        return Release(
            f"{self.name or scenario.name}, replicate {replicate}",
            every.accountant,
            user=None if hers is None else hers.accountant,
            drawn_with=every.drawn_with,
        )


AnyRelease = ExchangeRelease | DpSgdRelease | StatementRelease | SelectionRelease | ScenarioRelease
KINDS: dict[str, type[AnyRelease]] = {
    "exchange": ExchangeRelease,
    "dp_sgd": DpSgdRelease,
    "statement": StatementRelease,
    "selection": SelectionRelease,
    "scenario": ScenarioRelease,
}


class ReleasesFile(Config):
    """What happened to the same users."""

    name: str = "releases"
    delta: float = Field(gt=0, lt=1)
    """δ of the total."""
    adjacency: Adjacency = "label"
    """What is protected: one user's label, or her whole example, for which every release must."""
    release: tuple[dict[str, Any], ...] = Field(min_length=1, max_length=1000)
    """The releases, in their order."""


@dataclass(frozen=True)
class Line:
    """One release in the account. alone, so_far: ε at δ of it all times, and of everything up to it."""

    release: Release
    alone: PrivacyBound
    so_far: PrivacyBound


@dataclass(frozen=True)
class Account:
    """The account of what happened. user: whose, None for the worst user."""

    name: str
    delta: float
    user: int | None
    total: Composition
    lines: tuple[Line, ...]

    @property
    def bound(self) -> PrivacyBound:
        """The total."""
        return self.lines[-1].so_far

    @property
    def beside(self) -> float:
        """Probability of the failure beside μ: of what the releases cannot tell, and a thousandth of δ."""
        return 1.001 * self.total.untold + BESIDE * self.delta


def read(path: Path) -> tuple[ReleasesFile, list[AnyRelease]]:
    """What a file says, without looking at the scenarios that it names.

    Raises:
        InputError: the file cannot be read or holds a mistake.
    """
    tree = read_toml(path)
    try:
        file = ReleasesFile.model_validate(_as_tuples(tree))
    except ValidationError as error:
        raise refusal(error, ReleasesFile).within(path) from None
    found: list[AnyRelease] = []
    for number, entry in enumerate(file.release, 1):
        try:
            found.append(_release(entry))
        except InputError as error:
            raise InputError(f"{path}: release {number}: {error}") from None
    return file, found


def accounts(path: Path, user: int | None = None, data_dir: Path | None = None) -> list[Account]:
    """The account of the worst user, and that of one user if she is named.

    Raises:
        InputError: the file cannot be read or holds a mistake, or a combination has no figure.
    """
    file, entries = read(path)
    asked = Asked(BESIDE * file.delta / len(entries), user, path.parent, data_dir)
    found: list[Release] = []
    with one_thread():
        for number, entry in enumerate(entries, 1):
            try:
                found += entry.releases(asked)
            except (InputError, ValueError) as error:
                raise InputError(f"{path}: release {number}: {error}") from None
        try:
            every = _account(file, found, None)
            return [every] if user is None else [every, _account(file, found, user)]
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None


def _as_tuples(table: dict[str, Any]) -> dict[str, Any]:
    """The table with its lists as tuples, as the configuration has them."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}


def _release(entry: dict[str, Any]) -> AnyRelease:
    kind = entry.get("kind")
    if kind is None:
        raise InputError(f"kind: is missing; must be one of {', '.join(KINDS)}")
    if not isinstance(kind, str) or kind not in KINDS:
        hint = nearest(str(kind), KINDS)
        raise InputError(f"kind = {shortened(repr(kind))}: must be one of {', '.join(KINDS)}{hint}")
    model = KINDS[kind]
    try:
        return model.model_validate(_as_tuples(entry))
    except ValidationError as error:
        raise refusal(error, model) from None


def _account(file: ReleasesFile, releases: Sequence[Release], user: int | None) -> Account:
    check_delta(file.delta)
    models = [release.every if user is None or release.user is None else release.user for release in releases]
    times = [release.times for release in releases]
    drawn_with = [release.drawn_with for release in releases]
    total = Composition(tuple(models), tuple(times), tuple(drawn_with))  # releases that share noise are refused first
    lines: list[Line] = []
    for last, release in enumerate(releases, 1):
        alone = Composition((models[last - 1],), (release.times,)).epsilon(file.delta)
        if file.adjacency == "example" and alone.adjacency == "label":
            raise ValueError(
                f'adjacency = "example": {release.label} protects labels alone; together the releases protect no more '
                'than labels: adjacency = "label"'
            )
        so_far = Composition(tuple(models[:last]), tuple(times[:last]), tuple(drawn_with[:last])).epsilon(file.delta)
        lines.append(Line(release, alone, so_far))
    return Account(file.name, file.delta, user, total, tuple(lines))
