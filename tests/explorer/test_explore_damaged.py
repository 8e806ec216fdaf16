"""Whatever is wrong with a results directory is one line of the explorer's list, and the same line on every page."""

import json
import os
import time
from pathlib import Path

import pytest

from p2p_sim.results.lock import locked
from tests.damaged import damaged_directories
from tests.explorer.in_process import Client
from tests.written_sweeps import AXES, made_rows, manifest

PAGES = ("", "worth", "watch", "played")


def made(path, rows=12, **changes):
    """A results directory with some of its 12 rows."""
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps(manifest(AXES, 2) | changes))
    lines = [json.dumps(row) + "\n" for row in made_rows(AXES, 2)]
    (path / "rows.jsonl").write_text("".join(lines[:rows]))
    return path


def spoil_rows(path, **cells):
    lines = [json.loads(line) for line in (path / "rows.jsonl").read_text().splitlines()]
    lines[3].update(cells)
    (path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def replaced_by(path, make):
    path.unlink()
    make(path)


ODD = {
    "a link to itself": lambda p: p.symlink_to(p.name),
    "a pipe of rows": lambda p: replaced_by(made(p) / "rows.jsonl", os.mkfifo),
    "a pipe of a manifest": lambda p: replaced_by(made(p) / "manifest.json", os.mkfifo),
    "rows that link to themselves": lambda p: replaced_by(made(p) / "rows.jsonl", lambda r: r.symlink_to(r.name)),
    "half a manifest": lambda p: (made(p) / "manifest.json").write_text('{"scenario": {"na'),
    "no axis": lambda p: made(p, axes=[None]),
    "an axis without keys": lambda p: made(p, 0, axes=[{"values": [[1]]}]),
    "text in a column of numbers": lambda p: spoil_rows(made(p), epsilon_upper="much"),
    "a number that no column holds": lambda p: spoil_rows(made(p), num_users=2**70),
    "half a character in a name": lambda p: made(p, name="\ud800"),
    "half a character in a cell": lambda p: spoil_rows(made(p), basis="\ud800"),
    "a line that is no row": lambda p: (made(p) / "rows.jsonl").write_text("[]\n"),
    "some rows": lambda p: made(p, 7),
    "no rows": lambda p: made(p, 0),
    "half a row": lambda p: (made(p) / "rows.jsonl").write_text('{"scenario"'),
}
REASONS = {
    "a link to itself": "damaged: a link to itself",
    "a pipe of rows": "damaged: rows.jsonl: is not a file",
    "a pipe of a manifest": "damaged: manifest.json: is not a file",
    "rows that link to themselves": "damaged: rows.jsonl: is a link to itself",
    "half a manifest": "damaged: manifest.json: cannot be read (Unterminated string",
    "no axis": "damaged: manifest.json: is not a manifest (TypeError: axes and plots must be lists of tables)",
    "an axis without keys": "damaged: manifest.json: is not a manifest (KeyError: 'keys')",
    "text in a column of numbers": "damaged: rows.jsonl: column 'epsilon_upper' must hold numbers alone or text alone",
    "a number that no column holds": "damaged: rows.jsonl: column 'num_users' must hold numbers alone",
    "half a character in a name": "damaged: contains a lone surrogate, \\ud800",
    "half a character in a cell": "damaged: contains a lone surrogate, \\ud800",
    "a line that is no row": "damaged: rows.jsonl: damaged (line 1 is no row)",
    "some rows": "incomplete: 7 of 12 rows",
    "no rows": "incomplete: 0 of 12 rows",
    "half a row": "incomplete: 0 of 12 rows",
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A directory with one results directory of each odd kind, and a whole one."""
    root = tmp_path_factory.mktemp("odd") / "results"
    for name, make in ODD.items():
        root.mkdir(exist_ok=True)
        make(root / name)
    made(root / "whole")
    made(root / os.fsdecode(b"no utf-8: \xff"))
    return root


def listed(client):
    answer = client.get("api/results")
    assert answer.status == 200
    return {place["name"]: place for place in answer.json()["results"]}


@pytest.mark.parametrize("name", ODD)
def test_one_odd_entry_is_one_line_with_its_reason(odd, name):
    places = listed(Client(odd))
    assert places[name]["label"].startswith(f"{name} ({REASONS[name]}")
    assert len(places) == len(ODD) + 2
    assert places["whole"]["label"] == "whole"  # the control
    assert places[r"no utf-8: \xff"]["label"] == r"no utf-8: \xff (its name is not UTF-8)"


def test_what_is_damaged_comes_last_and_every_page_says_the_same_of_it(odd):
    client = Client(odd)
    places = list(listed(client).values())
    damaged = [place for place in places if "(damaged: " in place["label"]]
    assert damaged == places[-len(damaged) :]
    for place in damaged:
        answers = [client.get(f"api/{what}", {"results": place["key"], "format": "csv"})
                   for what in ("worth", "watch", "point", "download")]  # fmt: skip
        assert {answer.status for answer in answers} == {400}
        [said] = {answer.json()["error"] for answer in answers}
        assert place["label"] == "{} ({})".format(*said.split(": ", 1))
    for place in places[: -len(damaged)]:
        assert client.get("api/watch", {"results": place["key"]}).status == 200


def test_a_name_that_is_no_utf8_is_read_as_any_other(odd):
    client = Client(odd)
    both = [place["key"] for name, place in listed(client).items() if name in ("whole", r"no utf-8: \xff")]
    shown = client.get("api/worth", {"results": both}).json()["shown"]
    assert sum(len(line["points"]) for line in shown["lines"]) == 12
    assert client.get("api/download", {"results": both, "format": "csv"}).status == 200


def test_what_runs_is_running_and_what_ended_is_read_anew(tmp_path):
    path = made(tmp_path / "results" / "s", 5)
    client = Client(tmp_path / "results")
    assert listed(client)["s"]["label"] == "s (incomplete: 5 of 12 rows)"
    with locked(path):
        assert listed(client)["s"]["label"] == "s (running)"
        spoil_rows(path, epsilon_upper={"a": "\ud800"})
        key = listed(client)["s"]["key"]
        assert client.get("api/watch", {"results": key}).status == 200
    assert "damaged: rows.jsonl" in listed(client)["s"]["label"]
    (path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made_rows(AXES, 2)))
    assert listed(client)["s"]["label"] == "s"


def test_a_manifest_of_another_kind_of_study_is_left_out(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "manifest.json").write_text('{"study": "of its own kind"}')
    made(tmp_path / "run")
    assert [*listed(Client(tmp_path))] == ["run"]


def test_what_may_not_be_read_is_a_line_too(tmp_path, monkeypatch):
    """The tests may run as root, who may read everything: the system's refusal is made up."""
    closed, iterdir = made(tmp_path / "r" / "closed"), Path.iterdir
    made(tmp_path / "r" / "open")

    def refusing(path):
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refusing)
    labels = [place["label"] for place in listed(Client(tmp_path / "r")).values()]
    assert labels == ["open", "closed (damaged: cannot be read (Permission denied))"]


def test_whatever_fails_is_one_line_of_json(odd, monkeypatch, caplog):
    monkeypatch.setattr("p2p_sim.explorer.progress_page.Watch.look", lambda *_: 1 / 0)
    client = Client(odd)
    answer = client.get("api/watch", {"results": listed(client)["whole"]["key"]})
    assert (answer.status, answer.json()) == (
        500, {"error": "the explorer failed (ZeroDivisionError: division by zero); its terminal shows where"},
    )  # fmt: skip
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.slow_where(lambda seed: seed > 2)
@pytest.mark.parametrize("seed", range(1, 26))
def test_of_damaged_directories_every_one_is_a_line_and_none_is_an_error_of_the_server(tmp_path, seed):
    """Twenty a seed: 40 of them in every run of the tests, 500 in all."""
    paths = damaged_directories(tmp_path / "results", 20, seed)
    made(tmp_path / "results" / "whole")
    client = Client(tmp_path / "results")
    begin = time.monotonic()
    places = listed(client)
    assert len(places) == len(paths) + 1
    assert time.monotonic() - begin < 60.0  # nothing hangs
    assert places["whole"]["label"] == "whole"
    assert sum("(damaged: " in place["label"] for place in places.values()) >= 5
    assert all(place["label"].isprintable() for place in places.values())
    for page in PAGES:
        assert client.get(page).status == 200
    for place in places.values():
        damaged = "(damaged: " in place["label"]
        for what in ("watch",) if damaged else ("worth", "watch", "point", "download"):
            answer = client.get(f"api/{what}", {"results": place["key"], "point": "0" * 16, "format": "csv"})
            assert answer.status in ((400,) if damaged else (200, 400)), place
            if what != "download" or answer.status == 400:
                assert isinstance(answer.json(), dict)
