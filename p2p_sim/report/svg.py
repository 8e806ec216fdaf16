"""Matplotlib's figures as parts of a page: no identifier meets another's, nothing is loaded, nothing is dated."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from matplotlib import rc_context

ROUND = "stroke-linejoin:round;stroke-linecap:butt"
"""What Matplotlib says of all elements, in a style sheet that would reach the whole page."""

LARGEST = 1.15 * 96 / 72
"""Pixels a point at most, so that letters are no larger than the page's."""


def drawn(plot: Callable[[Path], object]) -> str:
    """The text of the SVG file that `plot` draws: letters stay letters.

    Args:
        plot: called with a path that ends in .svg.

    Raises:
        ValueError: it cannot be drawn.
    """
    settings: Any = {"svg.fonttype": "none"}
    with TemporaryDirectory() as place, rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # of a label in a script that the measuring font lacks
        path = Path(place) / "figure.svg"
        plot(path)
        return path.read_text(encoding="utf-8")


def embedded(text: str, prefix: str, alt: str) -> str:
    """An SVG file's text as an <svg> element: scales with the page, has an alternative text, no namespaces.

    Args:
        text: the file's.
        prefix: of the identifiers, unique in the page.
        alt: what the figure shows, in words.
    """
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = _local(element.tag)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style"):
                parent.remove(child)
        parent.attrib = {_local(key): _prefixed(_local(key), value, prefix) for key, value in parent.attrib.items()}
    box = root.get("viewBox", "0 0 100 100")
    widest = round(float(box.split()[2]) * LARGEST)
    root.attrib = {"viewBox": box, "role": "img", "aria-label": alt, "style": f"{ROUND};max-width:{widest}px"}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rsplit("}", 1)[-1]


def _prefixed(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return prefix + value
    if key == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return re.sub(r"url\(#", f"url(#{prefix}", value)
