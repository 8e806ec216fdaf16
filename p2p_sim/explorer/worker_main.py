"""The process beside the server: a question a line on standard input, an answer a line on standard output, in JSON."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.written_values import finite

Task = Callable[[Mapping[str, str]], dict[str, Any]]


def answered(task: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer of a task: told, curve, needed or film.

    Raises:
        InputError: the question cannot be answered, in one line.
    """
    if task == "film":
        from p2p_sim.explorer.film_page import film

        return film(fields)
    from p2p_sim.explorer import privacy_page

    tasks: dict[str, Task] = {"told": privacy_page.told, "curve": privacy_page.curve, "needed": privacy_page.needed}
    found: dict[str, Any] = finite(tasks[task](fields))
    return found


def main() -> None:
    """Answer until standard input ends; what libraries print goes nowhere."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    import scipy.special  # noqa: F401  # what takes long to load, before the first question

    for line in sys.stdin:
        question = json.loads(line)
        try:
            found = answered(question["task"], question["fields"])
        except (InputError, RunFailed) as error:
            found = {"error": str(error)}
        except MemoryError:
            found = {"error": "not enough memory"}
        print(json.dumps(found, allow_nan=False), file=out, flush=True)


if __name__ == "__main__":
    main()
