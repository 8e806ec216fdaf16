"""Tables of the wild kind: each is read as the same table written plainly, or refused in a line one can act on."""

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest

from p2p_sim.base import InputError
from p2p_sim.population.table_file import Layout, read_columns
from p2p_sim.results.rows import stored_rows
from tests.commands import command, unwrapped

ROWS = 300
LABEL = "outcome"


def numbers():
    """Six columns of numbers, a text and a label that follows from them."""
    rng = np.random.default_rng(3)
    age, income = rng.integers(18, 90, ROWS), rng.normal(42_000, 9_000, ROWS).round(2)
    score, height = rng.normal(0.0, 1.0, ROWS).round(3), rng.normal(1.7, 0.1, ROWS).round(2)
    city = np.array(["Oslo", "Rome", "Malmö"])[rng.integers(0, 3, ROWS)]
    chance = 1.0 / (1.0 + np.exp(-(2.5 * score + (age - 54) / 20.0)))
    outcome = np.where(rng.random(ROWS) < chance, "yes", "no")
    return pd.DataFrame({"age": age, "income": income, "score": score, "height": height, "city": city, LABEL: outcome})


def written(sep=",", decimal=".", thousands="", frame=None, end="\n"):
    """The table as text."""
    frame = numbers() if frame is None else frame

    def cell(value):
        if isinstance(value, str):
            return value
        if value is None or value != value:
            return ""
        whole = f"{value:,}" if isinstance(value, int | np.integer) else f"{value:,.3f}"
        return whole.replace(",", "\0").replace(".", decimal).replace("\0", thousands)

    out = io.StringIO()
    lines = csv.writer(out, delimiter=sep, lineterminator=end)
    lines.writerow(frame.columns)
    lines.writerows([cell(value) for value in row] for row in frame.itertuples(index=False))
    return out.getvalue()


def with_dates(form):
    frame = numbers()
    frame["born"] = (pd.Timestamp("1960-01-01") + pd.to_timedelta(np.arange(ROWS) * 37 % 9000, "D")).strftime(form)
    return frame


def with_gaps():
    frame = numbers().astype(object)
    for row, text in enumerate(("NA", "n/a", "NULL", "", "nan")):
        frame.loc[7 * row + 3, "score"] = text
    return frame


def accuracy(folder, monkeypatch, name, content, label=LABEL, *more):
    """Mean accuracy of the scenario that `new` writes for a table, after `validate` and `run`."""
    monkeypatch.chdir(folder)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = command("new", "mine", "--data", name, "--label", label, *more)
    assert status == 0, err
    assert command("validate", "mine.toml")[0] == 0
    small = ("--set", "replicates=2", "--set", 'engine="vectorised"')
    status, _, err = command("run", "mine.toml", *small, "--out", "out", "--quiet")
    assert status == 0, err
    return float(1.0 - stored_rows("out")["error_rate"].mean()), out


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return accuracy(tmp_path_factory.mktemp("plain"), patch, "t.csv", written())[0]


ALIKE = {
    "semicolons": ("t.csv", written(";")),
    "tabs": ("t.tsv", written("\t")),
    "tabs in a .csv": ("t.csv", written("\t")),
    "decimal commas": ("t.csv", written(";", ",")),
    "decimal commas and thousands": ("t.csv", written(";", ",", ".")),
    "thousands with commas": ("t.csv", written(";", ".", ",")),
    "thousands with blanks": ("t.csv", written(";", ",", " ")),
    "a byte-order mark": ("t.csv", b"\xef\xbb\xbf" + written().encode()),
    "UTF-32": ("t.csv", written().encode("utf-32")),
    "Latin-1": ("t.csv", written().encode("latin-1")),
    "UTF-16": ("t.csv", written().encode("utf-16")),
    "UTF-16 without a mark": ("t.csv", written().encode("utf-16-le")),
    "Windows line ends": ("t.csv", written(end="\r\n")),
    "empty lines at the end": ("t.csv", written() + "\n\n\n"),
    "the label first": ("t.csv", written(frame=numbers()[[LABEL, "age", "income", "score", "height", "city"]])),
    "quoted cells": ("t.csv", re.sub(r"(?m)^(\d+),", r'"\1",', written())),
}


@pytest.mark.parametrize("name", ALIKE)
def test_it_is_read_as_the_table_written_plainly(name, plain, tmp_path, monkeypatch):
    assert accuracy(tmp_path, monkeypatch, *ALIKE[name])[0] == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("sign", ["", ".", ","])
def test_parquet_and_feather_are_the_same_table(sign, plain, tmp_path, monkeypatch):
    """Also where they hold numbers as texts, with either decimal sign."""
    frame = numbers()
    if sign:
        frame["score"] = [f"{value:.3f}".replace(".", sign) for value in frame["score"]]
    for suffix in ("parquet", "feather"):
        folder = tmp_path / suffix
        folder.mkdir()
        getattr(frame, f"to_{suffix}")(folder / f"t.{suffix}")
        content = (folder / f"t.{suffix}").read_bytes()
        assert accuracy(folder, monkeypatch, f"t.{suffix}", content)[0] == pytest.approx(plain, abs=1e-12)


def test_a_label_with_spaces_and_quoted_line_ends(plain, tmp_path, monkeypatch):
    frame = numbers().rename(columns={LABEL: "the outcome"})
    frame["city"] = frame["city"].str.replace("Oslo", "Os\nlo")  # the names of the cities sort as before
    found, _ = accuracy(tmp_path, monkeypatch, "t.csv", written(frame=frame), "the outcome")
    assert found == pytest.approx(plain, abs=1e-12)


def with_days():
    """The dates as days, whole numbers, in the dates' place."""
    frame = with_dates("%Y-%m-%d")
    return frame.assign(born=(pd.to_datetime(frame["born"]) - pd.Timestamp("1970-01-01")).dt.days)


@pytest.fixture(scope="module")
def by_days(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return accuracy(tmp_path_factory.mktemp("days"), patch, "t.csv", written(frame=with_days()))[0]


FORMS = ["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%d %b %Y", "%B %d, %Y", "%Y-%m-%dT00:00:00.000Z", "%Y%m%d", "%Y/%m/%d"]


@pytest.mark.parametrize("form", FORMS)
def test_dates_become_days(form, by_days, tmp_path, monkeypatch):
    found, told = accuracy(tmp_path, monkeypatch, "t.csv", written(";", ",", frame=with_dates(form)))
    assert "dates become days from 1970-01-01: 'born'" in told
    written_as = form.replace("00:00:00.000", "%H:%M:%S.%f")
    assert f'dates = {{ "born" = "{written_as}" }}' in (tmp_path / "mine.toml").read_text()
    assert found == by_days


def test_missing_values_in_five_spellings_are_empty_cells(tmp_path, monkeypatch):
    accuracies = []
    for name, frame in {"five": with_gaps(), "empty": with_gaps().replace(["NA", "n/a", "NULL", "nan"], "")}.items():
        (tmp_path / name).mkdir()
        found, told = accuracy(tmp_path / name, monkeypatch, "t.csv", written(frame=frame))
        assert "missing values are filled in: 'score' (5)" in told
        accuracies.append(found)
    assert accuracies[0] == accuracies[1]


def test_mixed_types_are_the_same_table_with_the_words_as_gaps(tmp_path, monkeypatch):
    """Up to three words among numbers; more are named (below), and listing them gives the table with gaps."""
    accuracies = []
    for words in (["a", "b", "c"], ["", "", ""]):
        folder = tmp_path / f"with{words[0]}"
        folder.mkdir()
        frame = numbers().astype(object)
        frame.loc[::3, "score"] = [words[k % 3] for k in range(ROWS // 3)]
        accuracies.append(accuracy(folder, monkeypatch, "t.csv", written(frame=frame))[0])
    assert accuracies[0] == accuracies[1]


@pytest.mark.parametrize(
    ("column", "line"),
    [
        ([f"c{k % 5}" if k % 3 == 0 else f"{k / 7:.2f}" for k in range(ROWS)],
         "column 'more' is left out: most cells are numbers, 100 are not ('c0', 'c1', 'c2', ...): name these in "
         "population.missing, or correct them"),
        ([f"c{k % 5}" if k % 3 == 0 else f"{k % 8}" for k in range(ROWS)],
         "column 'more': most cells are numbers, 100 are not ('c0', 'c1', 'c2', ...): name these in "
         "population.missing, or correct them; as it stands each value becomes a feature"),
        ([f"{k / 7:.2f} €" for k in range(ROWS)],
         "column 'more' is left out: numbers with a unit, such as '0.00 €': write the numbers alone"),
        ([f"{k % 9}%" for k in range(ROWS)], "column 'more': numbers with a unit, such as '0%'"),
        ([f"{k % 28 + 1:02}.{k // 28 + 1:02}.{(60 + k % 35) % 100:02}" for k in range(ROWS)],
         "column 'more' is left out: dates such as '01.01.60', of which the centuries cannot be told apart"),
        ([f"Q{k % 4 + 1} on {k % 28 + 1}/1/2{k % 1000:03}" for k in range(ROWS)],
         "column 'more' is left out: a text with 300 different values"),
        ([f"Monday {k % 28 + 1}.{k // 28 + 1}.2020" for k in range(ROWS)],
         "column 'more' is left out: dates such as 'Monday 1.1.2020', in a form that is not recognised"),
        (["soon" if k == 7 else f"{k % 28 + 1:02}.{k // 28 + 1:02}.2020" for k in range(ROWS)],
         '"soon" is read as a missing value'),
        (pd.date_range("2000-01-01", periods=ROWS).strftime("%Y-%m-%d"), "dates become days from 1970-01-01: 'more'"),
    ],
    ids=["numbers and words", "few of them", "a unit", "few with a unit", "two-digit years", "no dates",
         "another form of dates", "dates and a word", "dates in order"],
)  # fmt: skip
def test_a_column_that_is_not_what_it_seems_is_named(column, line, tmp_path, monkeypatch):
    _, told = accuracy(tmp_path, monkeypatch, "t.csv", written(frame=numbers().assign(more=column)))
    told = unwrapped(told)
    assert line in told
    assert ("column 'more' is left out" in told) == ("left out" in line)


def test_each_column_has_its_own_decimal_sign(plain, tmp_path, monkeypatch):
    frame = numbers()
    frame["score"] = [f"{value:.3f}".replace(".", ",") for value in frame["score"]]
    assert accuracy(tmp_path, monkeypatch, "t.csv", written(";", frame=frame))[0] == pytest.approx(plain, abs=1e-12)


def test_columns_that_leave_a_third_one_open_are_refused(tmp_path, monkeypatch):
    rows = "".join(f"1.{k:03},5;2.{k % 7 + 1};3.{k:03};{'yes' if k % 3 else 'no'}\n" for k in range(60))
    line = refused(tmp_path, monkeypatch, f"a;b;c;{LABEL}\n{rows}")
    assert "columns 'a' and 'b' write numbers in different ways, '1.000,5' and '2.1'; write them alike" in line


def test_a_separator_is_stated(plain, tmp_path, monkeypatch):
    text = written().replace("age", "age;in;years;at;the;first;visit", 1)
    assert accuracy(tmp_path, monkeypatch, "t.csv", text, LABEL, "--separator", ",")[0] == pytest.approx(
        plain, abs=1e-12
    )
    for folder in ("guessed", "wrong"):
        (tmp_path / folder).mkdir()
    assert "line 2: 1 cells, but line 1 has 7 cells" in refused(tmp_path / "guessed", monkeypatch, text)
    line = refused(tmp_path / "wrong", monkeypatch, text, "--separator", "ab")
    assert "--separator ab: must be a character that separates cells" in line


def test_dates_of_two_readings_are_left_out_in_words(tmp_path, monkeypatch):
    frame = numbers()
    frame["seen"] = [f"0{1 + k % 9}/0{1 + k % 7}/2020" for k in range(ROWS)]
    _, told = accuracy(tmp_path, monkeypatch, "t.csv", written(frame=frame))
    assert (
        "column 'seen' is left out: dates such as '01/01/2020', of which day and month cannot be told apart"
        in unwrapped(told)
    )


def refused(folder, monkeypatch, content, *more):
    monkeypatch.chdir(folder)
    (folder / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = command("new", "mine", "--data", "t.csv", "--label", LABEL, *more)
    assert (status, out) == (2, "")
    assert not (folder / "mine.toml").exists()
    return err.strip().splitlines()[-1]


def test_numbers_of_two_readings_need_a_key(tmp_path, monkeypatch):
    rows = "".join(f"1,{100 + 7 * k % 900};{k % 5};{'yes' if k % 3 else 'no'}\n" for k in range(60))
    content = f"a;b;{LABEL}\n{rows}"
    line = refused(tmp_path, monkeypatch, content)
    assert "column 'a' has '1,100', which is a number in several ways; state --decimal \",\" or --decimal" in line
    for sign, first in (("decimal", 1.1), ("thousands", 1100.0)):
        folder = tmp_path / sign
        folder.mkdir()
        accuracy(folder, monkeypatch, "t.csv", content, LABEL, f"--{sign}", ",")
        assert f'{sign} = ","' in (folder / "mine.toml").read_text()
        assert first > 0


def test_a_stated_point_settles_what_it_is(tmp_path, monkeypatch):
    rows = "".join(f"1.{100 + 7 * k % 900};{k % 5};{'yes' if k % 3 else 'no'}\n" for k in range(60))
    content = f"a;b;{LABEL}\n{rows}"
    assert 'state --decimal "." or' in refused(tmp_path, monkeypatch, content)
    accuracy(tmp_path, monkeypatch, "t.csv", content, LABEL, "--decimal", ".")
    assert 'decimal = "."' in (tmp_path / "mine.toml").read_text()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (written().replace("\n", "\n1,2\n", 40).replace("\n1,2\n", "\n", 39), "cells, but line 1 has 6 cells"),
        (written().replace(",score,", ",age,"), "line 1: two columns are called 'age'"),
        ("", "t.csv: is empty; a table has a line of names and a row for each user"),
        ("\n \n\n", "t.csv: is empty"),
        (f"{LABEL}\n" + "yes\nno\n" * 30, "no column besides the label 'outcome' can be learned from"),
        (
            written(";", ",").replace(";", ";", 1).replace("1,7", "1.7"),
            "column 'income' writes numbers in different ways",
        ),
    ],
    ids=["ragged", "equal names", "empty", "blank", "one column", "two conventions"],
)
def test_what_cannot_be_read_is_one_line(content, line, tmp_path, monkeypatch):
    """Of `new`; and of `validate` and `run`, for a scenario that somebody else wrote."""
    assert line in refused(tmp_path, monkeypatch, content)
    if "different ways" in line or "learned from" in line:  # what `new` proposes is at fault, not the file
        return
    keys = f'kind = "table", path = "t.csv", label = "{LABEL}"'
    (tmp_path / "own.toml").write_text(f"population = {{ {keys} }}\nmechanism = {{ flip_prob = 0.1 }}\n")
    for asked in ("validate", "run"):
        status, _, err = command(asked, "own.toml")
        assert (status, len(err.splitlines()), line in err) == (2, 1, True)
    assert not (tmp_path / "results").exists()


def test_most_columns_left_out_is_the_last_line(tmp_path, monkeypatch):
    frame = numbers()[["age", LABEL]]
    for name in ("a", "b", "c"):
        frame[name] = [f"{name} {k} text" for k in range(ROWS)]
    _, told = accuracy(tmp_path, monkeypatch, "t.csv", written(frame=frame))
    assert "3 of 4 columns besides 'outcome' are left out ('a': a text with 300 different values" in unwrapped(told)
    assert unwrapped(told).endswith("or list the columns to use in population.features")


def test_three_hundred_columns(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(ROWS, 300)).round(3), columns=[f"x{k}" for k in range(300)])
    wide[LABEL] = np.where(wide["x0"] > 0, "yes", "no")
    accuracies = []
    for number, content in enumerate((written(frame=wide), written(";", ",", frame=wide))):
        (tmp_path / str(number)).mkdir()
        accuracies.append(accuracy(tmp_path / str(number), monkeypatch, "t.csv", content)[0])
    assert accuracies[0] == accuracies[1]


def test_a_decimal_comma_without_its_key_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(written(";", ","))
    (tmp_path / "mine.toml").write_text(
        f'name = "mine"\npopulation = {{kind = "table", path = "t.csv", label = "{LABEL}", separator = ";"}}\n'
        "mechanism = {flip_prob = 0.1}\n"
    )
    status, _, err = command("run", "mine.toml")
    assert status == 2
    assert 'population.decimal = "," reads all 300 cells of this column as numbers' in err


@pytest.mark.slow
def test_a_million_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    tall = pd.DataFrame(rng.normal(size=(1_000_000, 3)).round(2), columns=list("abc"))
    tall[LABEL] = np.where(tall["a"] > 0, "yes", "no")
    assert accuracy(tmp_path, monkeypatch, "t.csv", tall.to_csv(index=False, sep=";", decimal=","))[0] > 0.5


def test_a_text_in_another_encoding_than_stated_is_named_by_its_line(tmp_path):
    """The first line that UTF-8 could not hold was named, whatever encoding was stated."""
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,é\n", encoding="utf-8")
    with pytest.raises(InputError, match=r't\.csv, line 3: is no text in ascii; try population\.encoding = "utf-8"$'):
        read_columns(tmp_path / "t.csv", Layout(encoding="ascii"))
