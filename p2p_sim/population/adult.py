"""The files of UCI Adult as numbers."""

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from p2p_sim.base.errors import InputError
from p2p_sim.population.data_files import State, read_bytes
from p2p_sim.population.population import Examples


@lru_cache(maxsize=1)
def load_adult(paths: tuple[Path, ...], states: tuple[State, ...]) -> tuple[Examples, Examples]:
    """Both files of UCI Adult with the same columns: 6 standardised numbers, then one column a category value.

    states: of the files, so that changed ones are read again.
    """
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


def read_category(path: Path, column: int) -> list[str]:
    """The texts in a column of one file, (n,)."""
    return _read_adult(path)[column].astype("str").tolist()


_ADULT_NUMBERS = [0, 2, 4, 10, 11, 12]
_ADULT_MOST = 1e12


def _read_adult(path: Path) -> pd.DataFrame:
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
