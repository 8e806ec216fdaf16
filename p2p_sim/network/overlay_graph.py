"""Who may ask whom: arrays with every user's neighbours, and overlays from files (edge lists and GraphML)."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, NoReturn
from xml.parsers import expat

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray
from pydantic import Field

from p2p_sim.base import Config, InputError, Streams
from p2p_sim.population import find_named, read_bytes, state

Offsets = NDArray[np.int64]
"""Cluster boundaries (C+1,): cluster c holds users offsets[c]..offsets[c+1]-1."""
Rows = NDArray[np.int32]
Pairs = NDArray[np.int64]
"""Edges (m, 2), each once."""
Points = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OverlayInput:
    """The users of one replicate, from which an overlay is built.

    cluster_offsets: (C+1,), cluster c holds users offsets[c]..offsets[c+1]-1.
    streams: the replicate's random streams. places: directories in which files are looked for.
    row: (n,) each user's row in the population's source; None: user i is row i.
    source_rows: number of rows in the source, including rows that are no users; None: n, the number of users.
    """

    cluster_offsets: Offsets
    streams: Streams
    places: tuple[Path, ...] = ()
    row: Rows | None = None
    source_rows: int | None = None


@dataclass(frozen=True)
class Overlay:
    """A graph of the users. An edge joins two neighbours, and each of the two may ask the other.

    The neighbours of user i are indices[indptr[i]:indptr[i+1]]: ascending, all in her cluster, without herself.
    indptr: (n+1,) for n users. indices: (E,) neighbours of all users in turn, so every edge occurs twice.
    position: (n, 2) in the unit square; None: users have no positions.
    dropped_edges: number of a file's edges that join two clusters, or touch rows that are no users; they are not used.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    position: Points | None = None
    dropped_edges: int = 0

    @property
    def num_users(self) -> int:
        """How many users the overlay has, n."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """How many neighbours each user has, (n,)."""
        return np.diff(self.indptr)

    @property
    def isolated(self) -> int:
        """How many users have no neighbour."""
        return int(np.count_nonzero(self.degrees == 0))

    def disconnected_clusters(self, cluster_offsets: Offsets) -> int:
        """How many clusters have more than one connected part."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        edges = np.ones(len(self.indices), dtype=np.int8)
        graph = csr_array((edges, self.indices, self.indptr), shape=(self.num_users, self.num_users))
        # edges are stored in both directions, so strong components equal connected ones; finding them needs less memory
        component = connected_components(graph, connection="strong")[1]
        first = np.unique(component, return_index=True)[1]  # a node of each component
        return int(np.count_nonzero(np.bincount(cluster_of(cluster_offsets)[first]) > 1))

    def distances(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> Points:
        """The distance (m,) between the users first[j] and second[j], in a square of side 1; 0 without positions."""
        if self.position is None:
            return np.zeros(first.size)
        gap = self.position[first] - self.position[second]
        return np.asarray(np.hypot(gap[:, 0], gap[:, 1]))

    def shard(self, start: int, stop: int) -> "Overlay":
        """The overlay among the users `start` to `stop - 1` only, who are renumbered from 0.

        These users must form whole clusters. The result counts no dropped edges.
        """
        begin, end = self.indptr[start], self.indptr[stop]
        position = None if self.position is None else self.position[start:stop]
        indices = self.indices[begin:end] - np.int32(start) if start else self.indices[begin:end]
        return Overlay(self.indptr[start : stop + 1] - begin, indices, position)


def cluster_of(cluster_offsets: Offsets) -> NDArray[np.int64]:
    """The cluster of each user (n,), numbered from 0."""
    return np.repeat(np.arange(len(cluster_offsets) - 1), np.diff(cluster_offsets))


def from_pairs(num_users: int, pairs: Pairs, position: Points | None = None, dropped_edges: int = 0) -> Overlay:
    """The overlay with the given edges: pairs (m, 2) of users who may ask each other.

    The edges must be distinct, each between two different users of one cluster; this is not checked.

    Args:
        num_users: n. position: (n, 2) of the users in the unit square; None: users have no positions.
        dropped_edges: number of a file's edges that were left out, for reports.
    """
    from scipy.sparse import coo_array

    ends = (pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32))
    one_way = coo_array((np.ones(len(pairs), dtype=np.int8), ends), shape=(num_users, num_users)).tocsr()
    both = one_way + one_way.T.tocsr()
    indices = both.indices.astype(np.int32, copy=False)
    return Overlay(both.indptr.astype(np.int64), indices, position, dropped_edges)


def side_by_side(parts: Sequence[Overlay]) -> Overlay:
    """Joins one or more overlays into one; users are renumbered in the order of the overlays."""
    if len(parts) == 1:
        return parts[0]
    firsts = np.cumsum([0, *(part.num_users for part in parts[:-1])]).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([part.degrees for part in parts]))])
    indices = np.concatenate([part.indices + first for part, first in zip(parts, firsts, strict=True)])
    points = [part.position for part in parts if part.position is not None]
    return Overlay(indptr, indices, np.concatenate(points) if points else None)


_TWO_IDS = re.compile(r"\s*([^\s,]+)(?:\s*,\s*|\s+)([^\s,]+)\s*")
_NUMBER = re.compile(r"[0-9]{1,18}")


class FileOverlay(Config):
    """An overlay with the edges of a file. A user's id in the file is the number of her row in the population's source.

    Rows are numbered from 0, before the holdout is drawn. Edges that join two clusters, or touch rows that are no users
    of this replicate, are dropped and counted.
    """

    kind: Literal["file"] = "file"
    path: str = Field(min_length=1)
    """An edge list (two ids a line, separated by white space or a comma; # starts a comment), or a .graphml file. The
    file is looked for beside the scenario file, in the data directory, then in the working directory."""

    def build(self, source: OverlayInput) -> Overlay:
        """Reads a file's edges and returns the overlay among the users of one replicate.

        Args:
            source: the replicate's users and their rows in the data, and the directories in which the file is looked
            for.

        Raises:
            InputError: the file is missing or malformed, or has an unknown user, or no edge joins two users of one
            cluster.
        """
        num_users = int(source.cluster_offsets[-1])
        source_rows = source.source_rows or num_users
        path = find_named(self.path, source.places, "network.overlay.path")
        edges = read_edges(path, source_rows)
        user = np.full(source_rows, -1, dtype=np.int64)
        user[np.arange(num_users) if source.row is None else source.row] = np.arange(num_users)
        pairs = user[edges]
        pairs = pairs[(pairs >= 0).all(axis=1)]
        cluster = cluster_of(source.cluster_offsets)[pairs]
        pairs = pairs[cluster[:, 0] == cluster[:, 1]]
        if len(pairs) == 0:
            raise InputError(
                f"network.overlay.path = {self.path!r}: none of its {len(edges)} edges joins two users of one cluster"
            )
        return from_pairs(num_users, pairs, dropped_edges=len(edges) - len(pairs))


@cached(LRUCache(1), key=lambda path, source_rows: (path, source_rows, state(path)), lock=Lock())
def read_edges(path: Path, source_rows: int) -> Pairs:
    """The distinct undirected edges of a file, each once as (smaller id, larger id), in ascending order.

    Args:
        path: a GraphML file if the name ends in .graphml or .graphml.gz, otherwise an edge list. An edge list has two
        ids on each line, separated by white space or a comma; `#` starts a comment.
        source_rows: ids are the numbers 0 to source_rows - 1.

    Returns:
        Edges (m, 2), read-only, without edges from a user to herself.

    Raises:
        InputError: the file is unreadable, or a line is malformed or names an unknown user. The message has the line's
        number.
    """
    content = read_bytes(path)
    graphml = path.name.removesuffix(".gz").endswith(".graphml")
    ids = _graphml_ids(content, path, source_rows) if graphml else _listed_ids(content, path, source_rows)
    edges = np.fromiter(ids, dtype=np.int64).reshape(-1, 2)
    edges = np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1)
    first, second = np.divmod(np.unique(edges[:, 0] * source_rows + edges[:, 1]), source_rows)
    edges = np.stack([first, second], axis=1)
    edges.setflags(write=False)
    return edges


def _listed_ids(content: bytes, path: Path, source_rows: int) -> Iterator[int]:
    """Yields the two ids of every edge of an edge list, one after the other.

    Args:
        content: bytes of the file. path: the file, for messages. source_rows: ids are the numbers 0 to source_rows - 1.

    Raises:
        InputError: the file is no text, a line does not have two ids, or an id is out of range.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"network.overlay.path = {str(path)!r}: is not a text file ({error.reason})") from None
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        line = line.partition("#")[0]
        if ids := _TWO_IDS.fullmatch(line):
            yield _user(ids[1], path, number, source_rows)
            yield _user(ids[2], path, number, source_rows)
        elif line.strip():
            _malformed(path, number, f"{line.strip()[:60]!r} is not two ids, separated by white space or a comma")


def _graphml_ids(content: bytes, path: Path, source_rows: int) -> list[int]:
    """The two ids of every edge of a GraphML file, one after the other. The parser knows each edge's line, for
    messages.

    Args:
        content: bytes of the file. path: the file, for messages. source_rows: ids are the numbers 0 to source_rows - 1.

    Raises:
        InputError: the file is not GraphML, or an id is out of range.
    """
    ids: list[int] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, attributes: dict[str, str]) -> None:
        line, element = parser.CurrentLineNumber, name.rpartition(" ")[2]
        if not depth and element != "graphml":
            _malformed(path, line, f"the first element is <{element}>, not <graphml>")
        depth.append(element)
        for attribute in {"node": ("id",), "edge": ("source", "target")}.get(element, ()):
            if attribute not in attributes:
                _malformed(path, line, f"<{element}> without {attribute!r}")
            user = _user(attributes[attribute], path, line, source_rows)
            if element == "edge":
                ids.append(user)
        if element == "hyperedge":
            _malformed(path, line, "<hyperedge> is not allowed, only edges between two users")

    def declared(*_: object) -> NoReturn:  # a few lines of entities can expand to gigabytes
        _malformed(path, parser.CurrentLineNumber, "declares an entity, which is not allowed")

    depth: list[str] = []
    parser.StartElementHandler, parser.EntityDeclHandler = start, declared
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, LookupError, ValueError) as error:  # an unknown encoding raises one of the last two
        _malformed(path, parser.ErrorLineNumber, f"not GraphML ({str(error).partition(':')[0]})")
    return ids


def _user(text: str, path: Path, line: int, source_rows: int) -> int:
    """The user with an id from a file. If no user has this id, an InputError names the line."""
    if _NUMBER.fullmatch(text) and (user := int(text)) < source_rows:
        return user
    allowed = f"ids are rows of the population's source, 0 to {source_rows - 1}"
    _malformed(path, line, f"{text[:60]!r} is no user; {allowed}")


def _malformed(path: Path, line: int, problem: str) -> NoReturn:
    """Raise an InputError that names the line and its problem."""
    raise InputError(f"network.overlay.path = {str(path)!r}: line {line}: {problem}")
