"""A film as moving pictures: an animated GIF, or an MP4 by ffmpeg."""

import math
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from p2p_sim.base.errors import InputError, RunFailed
from p2p_sim.base.files import in_place_of, writing
from p2p_sim.outputs.film.moment import DID, MEMBER, SEEN, Watcher, away, doing, flying, seen
from p2p_sim.outputs.film.places import HEIGHT, LEARNER_RADIUS, WIDTH
from p2p_sim.outputs.film.record import Film, counts_at

FRAMES, PER_SECOND = 180, 15
"""Pictures of a film, and of a second; the last picture stands for two seconds."""
STRIP = 60
"""Height of the lines of text below the stage, in units of the picture."""
SCALE, DRAWN = 0.8, 2
"""Pixels a unit in a picture, and how many times larger it is drawn first."""
USER = {0: "#6e7781", 1: "#0072b2", 2: "#b35c00", 3: "#007a5a", 4: "#c4420e", MEMBER: "#7a3e9d"}
MESSAGE = {0: "#c4420e", 1: "#0072b2", 2: "#b35c00", 3: "#007a5a"}
INK, SOFT, LINE, PAPER, WASH, LEARNER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff", "#f5f7f9", "#0b5cad"


STAR = [
    (scale * math.sin(0.2 * math.pi * place), -scale * math.cos(0.2 * math.pi * place))
    for place, scale in enumerate([0.8, 0.32] * 5)
]
"""The corners of a member's star, in units of her marker's radius."""


def find_ffmpeg() -> str:
    """Where ffmpeg is.

    Raises:
        InputError: it is not on the path.
    """
    found = shutil.which("ffmpeg")
    if found is None:
        raise InputError("--mp4: needs ffmpeg, which is not on the path; --gif and --film do without it")
    return found


def write_gif(film: Film, path: Path, watcher: Watcher | None = None) -> None:
    """Write a film as an animated GIF that begins again after its end; `watcher`: as in `picture`."""
    palette = picture(film, 0.5 * film.end_s, watcher).quantize(128)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in pictures(film, watcher)]
    durations = [1000 // PER_SECOND] * (len(frames) - 1) + [2000]
    with writing(path), in_place_of(path) as part:
        frames[0].save(part, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)


def write_mp4(film: Film, path: Path, watcher: Watcher | None = None) -> None:
    """Write a film as an MP4 with ffmpeg; `watcher`: as in `picture`.

    Raises:
        InputError: there is no ffmpeg. RunFailed: ffmpeg failed, with its last line.
    """
    program = find_ffmpeg()
    first = picture(film, 0.0, watcher)
    size, rate = f"{first.width}x{first.height}", str(PER_SECOND)
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", rate, "-i", "-"]
    target = ["-an", "-vf", f"tpad=stop_mode=clone:stop_duration=2,scale={size.replace('x', ':')}"]
    target += ["-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    with writing(path), in_place_of(path) as part:
        command = [program, "-loglevel", "error", "-y", *source, *target, "-f", "mp4", str(part)]
        content = b"".join(image.tobytes() for image in pictures(film, watcher))
        done = subprocess.run(command, input=content, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise RunFailed(f"--mp4 {path}: ffmpeg failed: {said[-1]}")


def pictures(film: Film, watcher: Watcher | None = None) -> Iterator[Image.Image]:
    """The pictures of a film, evenly spaced in time, from its begin to its end; `watcher`: as in `picture`."""
    ground = _ground(film, watcher)
    return (picture(film, at_s, watcher, ground) for at_s in np.linspace(0.0, film.end_s, FRAMES).tolist())


def picture(film: Film, at_s: float, watcher: Watcher | None = None, ground: Image.Image | None = None) -> Image.Image:
    """A film at a moment, 800 x 560 pixels.

    Args:
        film: the film. at_s: the moment, seconds.
        watcher: users are coloured by what this observer has seen of them; None: by what they did.
        ground: what is the same in every picture, if it has been drawn.
    """
    image = (_ground(film, watcher) if ground is None else ground).copy()
    pen = ImageDraw.Draw(image)
    for kind, *line in flying(film, at_s):
        pen.line([_at(value) for value in line], fill=MESSAGE[kind], width=3)
    size = _at(0.75 * film.places.radius)
    states = doing(film, at_s) if watcher is None else seen(film, watcher, at_s)
    places = film.places.user.tolist()
    for state, offline, (x, y) in zip(states.tolist(), away(film, at_s).tolist(), places, strict=True):
        _mark(pen, state, _at(x), _at(y), size, offline)
    for kind, _, _, x, y in flying(film, at_s):
        _message(pen, kind, _at(x), _at(y), max(0.7 * size, _at(4.0)))
    small, (x, y) = image.resize((image.width // DRAWN, image.height // DRAWN), Image.Resampling.LANCZOS), (12, 520)
    pen = ImageDraw.Draw(small)
    counts = counts_at(film, at_s)
    told = ", ".join(f"{name} {counts[name]:,}" for name in ("sent", "lost", "delivered", "submitted"))
    of = "" if film.timeline is None else f"; {film.users.size:,} of {film.found.num_users:,} users are shown"
    pen.text((x, y), f"{film.found.name}, {at_s:.3f} s.  Messages: {told}{of}", fill=INK, font=_font(14))
    return small


def _ground(film: Film, watcher: Watcher | None) -> Image.Image:
    """The stage with clusters, edges, the learner and the key."""
    image = Image.new("RGB", (_even(WIDTH), _even(HEIGHT + STRIP)), PAPER)
    pen = ImageDraw.Draw(image)
    pen.rectangle([0, 0, image.width, _at(HEIGHT)], fill=WASH)
    for x, y, radius in film.places.disc.tolist():
        pen.ellipse(_box(x, y, radius), fill=PAPER, outline=LINE, width=2)
    for a, b in film.places.user[film.places.edges].tolist():
        pen.line([_at(value) for value in (*a, *b)], fill="#dde2e7", width=1)
    pen.ellipse(_box(*film.places.learner, LEARNER_RADIUS), fill=LEARNER)
    x, y = film.places.learner
    pen.text((_at(x), _at(y)), "learner", fill=PAPER, font=_font(13 * DRAWN), anchor="mm")
    left, middle = _at(18.0), _at(HEIGHT + 42.0)
    small = _font(11 * DRAWN)
    if watcher is not None:
        title = f"What the {watcher} has seen:"
        pen.text((left - 9, middle), title, fill=INK, font=small, anchor="lm")
        left += 20 + pen.textlength(title, font=small)
    for state, text in (DID if watcher is None else SEEN[watcher]).items():
        _mark(pen, state, left, middle, 9.0)
        pen.text((left + 20, middle), text, fill=SOFT, font=small, anchor="lm")
        left += 48 + pen.textlength(text, font=small)
    if film.found.trace.online is not None:
        _slash(pen, left, middle, 9.0)
        pen.text((left + 20, middle), "offline now", fill=SOFT, font=small, anchor="lm")
    return image


def _mark(pen: ImageDraw.ImageDraw, state: int, x: float, y: float, r: float, offline: bool = False) -> None:
    """A user, by what she did or what is known of her: the shapes of the page, faint with a slash if she is offline."""
    colour, box = _faint(USER[state]) if offline else USER[state], [x - r, y - r, x + r, y + r]
    if state <= 1:
        pen.ellipse(box, fill=PAPER, outline=colour, width=3)
        if state:
            pen.ellipse([x - r / 2, y - r / 2, x + r / 2, y + r / 2], fill=colour)
    elif state == 2:
        pen.rectangle(box, fill=colour)
    elif state == 3:
        pen.polygon([(x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)], fill=colour)
    elif state == MEMBER:
        pen.ellipse(_grown(box, 0.15 * r), fill=colour)
        pen.polygon([(x + a * r, y + b * r) for a, b in STAR], fill=PAPER)
    else:
        pen.polygon([(x - 1.2 * r, y - r), (x + 1.2 * r, y - r), (x, y + 1.2 * r)], fill=colour)
    if offline:
        _slash(pen, x, y, r)


def _slash(pen: ImageDraw.ImageDraw, x: float, y: float, r: float) -> None:
    pen.line([x - 1.3 * r, y + 1.3 * r, x + 1.3 * r, y - 1.3 * r], fill=INK, width=4)


def _faint(colour: str) -> str:
    """A colour, by 60% nearer to the paper."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(0.4 * part + 0.6 * 255):02x}" for part in parts)


def _grown(box: list[float], by: float) -> list[float]:
    return [box[0] - by, box[1] - by, box[2] + by, box[3] + by]


def _message(pen: ImageDraw.ImageDraw, kind: int, x: float, y: float, r: float) -> None:
    colour, box = MESSAGE[kind], [x - r, y - r, x + r, y + r]
    if kind == 0:
        pen.line(box, fill=colour, width=5)
        pen.line([x - r, y + r, x + r, y - r], fill=colour, width=5)
    elif kind == 1:
        pen.ellipse(box, fill=colour, outline=PAPER, width=2)
    elif kind == 2:
        pen.rectangle(box, fill=colour, outline=PAPER, width=2)
    else:
        pen.polygon([(x, y - 1.3 * r), (x + 1.25 * r, y + r), (x - 1.25 * r, y + r)], fill=colour, outline=PAPER)


def _at(value: float) -> float:
    """A length on the stage in pixels of the larger drawing."""
    return value * SCALE * DRAWN


def _even(value: float) -> int:
    return 2 * DRAWN * round(value * SCALE / 2)


def _box(x: float, y: float, radius: float) -> list[float]:
    return [_at(value) for value in (x - radius, y - radius, x + radius, y + radius)]


@lru_cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with matplotlib."""
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
