"""scikit-learn's digits and UCI Adult, and base classes of data sets with random or official test rows."""

import io
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Extended, InputError, Streams
from p2p_sim.population.data_files import State, find_file, read_bytes, state
from p2p_sim.population.measured_groups import Grouping, by_column
from p2p_sim.population.population import Examples, Sample, Source

if TYPE_CHECKING:
    import pandas as pd


@lru_cache(maxsize=1)
def load_adult(paths: tuple[Path, ...], states: tuple[State, ...]) -> tuple[Examples, Examples]:
    """Training and test rows of UCI Adult. Features: 6 standardised numbers, then a 0 or 1 for each category value.

    paths: paths of the training and of the test file.
    states: times of change and sizes of the files; if these have changed, the files are read again.
    """
    import pandas as pd  # takes approximately a second; other populations need not wait

    frames = [_read_adult(path) for path in paths]
    both = pd.concat(frames, keys=["train", "test"])
    labels = both[14].str.rstrip(".").eq(">50K").to_numpy().astype(np.uint8)
    numbers = both[_ADULT_NUMBERS].to_numpy(dtype=np.float64)
    count = len(frames[0])
    spread = numbers[:count].std(axis=0)
    numbers = (numbers - numbers[:count].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    categories = pd.get_dummies(both.drop(columns=[*_ADULT_NUMBERS, 14]).astype("str"))
    features = np.hstack([numbers, categories.to_numpy(dtype=np.float64)])
    return Examples(features[:count], labels[:count]), Examples(features[count:], labels[count:])


_ADULT_NUMBERS = [0, 2, 4, 10, 11, 12]
_ADULT_MOST = 1e12


def _read_adult(path: Path) -> "pd.DataFrame":
    import pandas as pd

    text = read_bytes(path).decode("utf-8", errors="replace")
    try:
        frame = pd.read_csv(io.StringIO(text), header=None, skipinitialspace=True, comment="|")
        frame[_ADULT_NUMBERS] = frame[_ADULT_NUMBERS].astype(np.float64)
    except (ValueError, KeyError, OverflowError) as error:
        raise InputError(f"{path}: not the UCI Adult format ({str(error).splitlines()[0]})") from None
    if frame.shape[1] != 15 or not frame[14].isin(["<=50K", ">50K", "<=50K.", ">50K."]).all():
        raise InputError(f"{path}: not the UCI Adult format (15 columns, the last one <=50K or >50K)")
    if not frame[_ADULT_NUMBERS].abs().le(_ADULT_MOST).all(axis=None):
        raise InputError(f"{path}: a number is missing, or larger than {_ADULT_MOST:g}")
    return frame


ADULT_CATEGORIES = {
    "workclass": 1,
    "education": 3,
    "marital-status": 5,
    "occupation": 6,
    "relationship": 7,
    "race": 8,
    "sex": 9,
    "native-country": 13,
}
"""Positions of the text columns of UCI Adult, by their names."""
DigitTask = Literal["even-odd", "classes", "one-against-rest"]


class RandomSplit(Extended, Source):
    """Base of sources that hold out random rows in every replicate. All other rows, or a random part, are users."""

    later: ClassVar[tuple[str, ...]] = ("users",)
    users: int | None = Field(default=None, ge=2)
    """Number of users, drawn anew in each replicate from the rows not held out, at least 2; absent: all such rows."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    """Share of the rows that are held out to measure error, between 0 and 1."""

    def held_out(self, count: int, streams: Streams) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Indices of the users' rows and of the held-out rows, drawn at random from all rows of a data set.

        Errors are measured on the held-out rows, which do not depend on the number of users. The draw looks at no
        label. So ε equals the ε of an exchange that has only the drawn users.

        Args:
            count: number of rows of the data set. streams: the replicate's random streams.

        Raises:
            InputError: too few rows are left to test on, or to be users.
        """
        order = streams.generator("population").permutation(count)
        held = round(self.test_fraction * count)
        if held < 1 or held > count - 2:
            raise InputError(
                f"population.test_fraction = {self.test_fraction:g}: leaves {held} of {count} rows to test on; "
                "at least 1 and all but 2 are allowed"
            )
        if self.users is not None and self.users > count - held:
            raise InputError(
                f"population.users = {self.users}: {count - held} of {count} rows are not held out to test on"
            )
        return order[held:][: self.users], order[:held]

    def split(self, rows: Examples, num_classes: int, streams: Streams) -> Sample:
        """Splits the rows of a data set at random into users and held-out rows, on which errors are measured.

        A user keeps the index of her row in the data set; a held-out row does not.

        Args:
            rows: all labelled rows. num_classes: K. streams: the replicate's random streams.
        """
        learned, held = self.held_out(len(rows.labels), streams)
        holdout = replace(rows.take(held), row=None, source_rows=None)
        return Sample(rows.take(learned), num_classes, holdout, values=self.known_values)


class DigitsConfig(RandomSplit):
    """scikit-learn's bundled 8 by 8 digits (1,797 rows); every replicate draws a fresh holdout."""

    kind: Literal["digits"] = "digits"
    task: DigitTask = "even-odd"
    """"even-odd": label 1 for odd digits; "classes": the ten digits; "one-against-rest": label 1 for digit `one`."""
    one: int = Field(default=0, ge=0, le=9)
    """The digit that has label 1 if task = "one-against-rest", 0 to 9."""

    @property
    def known_classes(self) -> int:
        return 10 if self.task == "classes" else 2

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """Splits all digits at random, by `streams`, into users and holdout; `places` is not used."""
        from sklearn.datasets import load_digits

        features, digits = load_digits(return_X_y=True)
        rows = Examples(features / 16.0, digit_labels(digits, self.task, self.one))
        return self.split(rows, self.known_classes, streams)


class OfficialSplit(Source):
    """Base of data sets with official test rows. All training rows, or a random part, are users."""

    users: int | None = Field(default=None, ge=2)
    """Number of users, drawn anew in each replicate from the training rows, at least 2; absent: all training rows."""

    def _choose(self, train: Examples, streams: Streams) -> Examples:
        """The training rows that are users in a replicate: all rows, or as many random rows as the key `users` states.

        Raises:
            InputError: there are fewer training rows than the key `users` asks for.
        """
        if self.users is None:
            return train
        if self.users > len(train.labels):
            raise InputError(f"population.users = {self.users}: the data set has {len(train.labels)} training rows")
        return train.take(streams.generator("population").permutation(len(train.labels))[: self.users])


class AdultConfig(OfficialSplit):
    """UCI Adult: label 1 for an income above 50K; numbers are standardised, and categories become one-hot."""

    kind: Literal["adult"] = "adult"
    known_classes: ClassVar[int | None] = 2
    group_columns: ClassVar[tuple[str, ...]] = tuple(ADULT_CATEGORIES)

    def files(self, places: tuple[Path, ...]) -> list[Path]:
        """Paths of the training and the test file, in this order, found in the directories `places`."""
        names = (("adult-train.csv", "adult.data"), ("adult-test.csv", "adult.test"))
        return [find_file("adult", places, "adult", either) for either in names]

    def sample(self, places: tuple[Path, ...], streams: Streams) -> Sample:
        """The training rows as users (all, or some at random), and all test rows. `places`: folders with the files."""
        paths = tuple(self.files(places))
        train, holdout = load_adult(paths, tuple(map(state, paths)))
        return Sample(self._choose(train, streams), 2, holdout)

    def grouping(self, column: str, places: tuple[Path, ...], streams: Streams) -> Grouping:
        """Divides the test rows into groups, one for each text in a column of categories such as "sex".

        Args:
            column: name of the column. places: directories in which the files are looked for. streams: not used.
        """
        test = _read_adult(self.files(places)[1])
        return by_column(column, test[ADULT_CATEGORIES[column]].astype("str").tolist())


def digit_labels(digits: NDArray[np.integer], task: DigitTask, positive: int = 0) -> NDArray[np.uint8]:
    """Labels (n,) of a task, from classes (n,), 0 to 9.

    In "classes", the label is the class. In "even-odd", odd classes have label 1. In "one-against-rest", class
    `positive` has label 1. All other labels are 0.
    """
    if task == "classes":
        return digits.astype(np.uint8)
    return (digits % 2 if task == "even-odd" else digits == positive).astype(np.uint8)
