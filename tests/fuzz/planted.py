"""Targets that break their process: what the harness must live through."""

import os
import random
import signal
from pathlib import Path

from p2p_sim.base.errors import InputError

HOARD: list[bytearray] = []


def breaks_its_process(rng: random.Random, folder: Path) -> None:
    """Number 1 keeps all memory that there is, 3 kills its process, 5 does not end; the others want a little memory."""
    number = int(folder.name.split("-")[-1])
    while number == 1:
        HOARD.append(bytearray(5 * 10**7))
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    while number == 5:
        pass
    bytearray(5 * 10**7)
    if number == 7:
        raise InputError("a refusal")


def loses_its_process(rng: random.Random, folder: Path) -> None:
    """Every number ends its process, as if all were well or not."""
    os._exit(int(folder.name[-1]) % 2)
