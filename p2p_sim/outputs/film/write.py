"""The files of a film: checked before anything runs, written whole or not at all."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from p2p_sim.base.errors import InputError
from p2p_sim.base.files import write_whole, writing
from p2p_sim.outputs.film.moment import WATCHERS, Watcher
from p2p_sim.outputs.network_record import ObservedNetwork
from p2p_sim.scenario import Scenario

ENDINGS = {"film": (".html", ".htm"), "gif": (".gif",), "mp4": (".mp4",)}
"""Allowed endings of a file, by its option."""


@dataclass(frozen=True)
class Films:
    """Where a film is written as a page, as an animated GIF and as an MP4; None: not at all.

    seen_by: the observer by whose view the users of the GIF and of the MP4 are coloured; None: by what they did.

    Raises:
        InputError: a file has a wrong ending or cannot be written, an MP4 is wanted and there is no ffmpeg, or there
            is no such observer, or nothing that shows what it has seen.
    """

    film: Path | None = None
    gif: Path | None = None
    mp4: Path | None = None
    seen_by: str | None = None

    def __post_init__(self) -> None:
        for option, path in self._wanted.items():
            if path.suffix.lower() not in ENDINGS[option]:
                raise InputError(f"--{option} {path}: must end in {' or '.join(ENDINGS[option])}")
            if path.is_dir():
                raise InputError(f"--{option} {path}: is a directory")
            if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
                raise InputError(f"--{option} {path}: cannot be written; its directory must be there")
        if self.mp4 is not None:
            from p2p_sim.outputs.film.pictures import find_ffmpeg

            find_ffmpeg()
        if self.seen_by is not None:
            if self.seen_by not in WATCHERS:
                raise InputError(f"--seen-by {self.seen_by}: must be {' or '.join(WATCHERS)}")
            if self.gif is None and self.mp4 is None:
                raise InputError(f"--seen-by {self.seen_by}: goes with --gif or --mp4; a page shows every view")

    @property
    def _wanted(self) -> dict[str, Path]:
        files = {"film": self.film, "gif": self.gif, "mp4": self.mp4}
        return {option: path for option, path in files.items() if path is not None}

    def check(self, scenario: Scenario) -> None:
        """Refuse the view of a coalition where a scenario has none."""
        who = scenario.adversaries
        if self.seen_by == "coalition" and not (who.coalition.share or who.coalition.users or who.sybil.share):
            raise InputError("--seen-by coalition: the scenario has none; set adversaries.coalition.share, above 0")

    def write(self, found: ObservedNetwork) -> list[Path]:
        """Write the files of a run, over earlier ones; returns them."""
        if self.film is not None:
            from p2p_sim.outputs.film.page import film_html

            with writing(self.film):
                write_whole(self.film, film_html(found).encode())
        if self.gif is not None or self.mp4 is not None:
            from p2p_sim.outputs.film.pictures import write_gif, write_mp4
            from p2p_sim.outputs.film.record import film_of

            shown, watcher = film_of(found), cast(Watcher | None, self.seen_by)
            if self.gif is not None:
                write_gif(shown, self.gif, watcher)
            if self.mp4 is not None:
                write_mp4(shown, self.mp4, watcher)
        return list(self._wanted.values())
