"""The files of a film: checked before anything runs, written whole or not at all."""

import os
from dataclasses import dataclass
from pathlib import Path

from p2p_sim.base.errors import InputError
from p2p_sim.base.files import write_whole, writing
from p2p_sim.outputs.network_record import ObservedNetwork

ENDINGS = {"film": (".html", ".htm"), "gif": (".gif",), "mp4": (".mp4",)}
"""Allowed endings of a file, by its option."""


@dataclass(frozen=True)
class Films:
    """Where a film is written as a page, as an animated GIF and as an MP4; None: not at all.

    Raises:
        InputError: a file has a wrong ending or cannot be written, or an MP4 is wanted and there is no ffmpeg.
    """

    film: Path | None = None
    gif: Path | None = None
    mp4: Path | None = None

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

    @property
    def _wanted(self) -> dict[str, Path]:
        return {option: path for option, path in vars(self).items() if path is not None}

    def write(self, found: ObservedNetwork) -> list[Path]:
        """Write the files of a run, over earlier ones; returns them."""
        if self.film is not None:
            from p2p_sim.outputs.film.page import film_html

            with writing(self.film):
                write_whole(self.film, film_html(found).encode())
        if self.gif is not None or self.mp4 is not None:
            from p2p_sim.outputs.film.pictures import write_gif, write_mp4
            from p2p_sim.outputs.film.record import film_of

            shown = film_of(found)
            if self.gif is not None:
                write_gif(shown, self.gif)
            if self.mp4 is not None:
                write_mp4(shown, self.mp4)
        return list(self._wanted.values())
