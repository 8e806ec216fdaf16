"""The film of the exchange: its counts are the run's, and it says who could see what."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from markupsafe import escape

from docs import make_film
from p2p_sim.cli.main import main
from p2p_sim.exchange.transcript import REPLY
from p2p_sim.film import film_html, film_of
from p2p_sim.film.film_record import COUNTS, counts_at, doing, flying
from p2p_sim.replicate.observed_network import books, observe
from tests.conftest import ROOT
from tests.replicate.test_observed_network import COALITION, NETWORKS, scenario


@pytest.fixture(scope="module")
def found():
    """What happened on each network, worked out once."""
    kept = {}

    def get(network, users=90):
        users = {"walk": 30, "scale_free": 30}.get(network, users)  # theirs take longer to account for
        if (network, users) not in kept:
            kept[network, users] = observe(scenario(network, COALITION, users))
        return kept[network, users]

    return get


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("network", NETWORKS)
def test_what_was_sent_adds_up_to_the_counts_and_to_the_transcript(found, network):
    run = found(network)
    film = film_of(run)
    counts, fates = counts_at(film, film.end_s), books(run.num_users, run.counts)
    submitted, unanswered = counts.pop("submitted"), counts.pop("unanswered")
    assert counts == {name: run.counts[column] for name, column in COUNTS.items()}
    assert submitted == int(run.submissions.sum())
    assert unanswered == fates["users_unanswered"] + fates["users_departed"]
    assert counts_at(film, -1.0) == dict.fromkeys(film.run, 0)


def test_who_waits_in_vain_has_failed_at_the_end(found):
    run = observe(
        scenario("fallback", None, 90).replace(**{"network.request_timeout_s": None, "network.on_timeout": {}})
    )
    film = film_of(run)
    assert film.run["expired"] == 0 < film.run["unanswered"]
    states = doing(film, film.end_s)
    assert np.array_equal(states == 4, ~np.isfinite(run.answered_s))
    assert np.count_nonzero(states == 4) == film.run["unanswered"]
    assert set(states) == {2, 3, 4}  # nobody waits


def test_a_sample_shows_the_worst_placed_user_and_says_who_she_is(found):
    run = found("lossy", 1000)
    epsilon = run.epsilon.copy()
    epsilon[777] += 1.0
    worst = replace(run, epsilon=epsilon)
    assert 777 in film_of(worst).users
    assert f"This is user 777 of cluster {run.cluster(777)}. <button" in film_html(worst)


@pytest.mark.parametrize(
    "fault", ["one more sent", "one lost is not", "another number", "one never sent", "a retry more", "one gave up"]
)
def test_a_miscount_is_caught(found, fault):
    run = found("lossy")
    sent = run.trace.sent
    rows, arrives = np.arange(sent.kind.size), sent.arrives_s.copy()
    if fault == "one more sent":
        rows = np.append(rows, 0)
    elif fault == "one lost is not":
        arrives[np.argmax(np.isinf(arrives))] = 1.0
    elif fault == "another number":
        run = replace(run, counts={**run.counts, "messages_sent": run.counts["messages_sent"] + 1})
    elif fault == "a retry more":
        run = replace(run, counts={**run.counts, "retries": run.counts["retries"] + 1})
    elif fault == "one gave up":
        answered = run.answered_s.copy()
        answered[np.argmin(answered)] = np.inf
        run = replace(run, answered_s=answered)
    else:
        rows = rows[1:]
    changed = replace(sent, arrives_s=arrives)
    changed = type(sent)(*(column[rows] for column in vars(changed).values()))
    with pytest.raises(RuntimeError, match=r"the film counts|never sent"):
        film_of(replace(run, trace=replace(run.trace, sent=changed)))


def test_a_sample_of_a_larger_run_says_so_and_counts_the_whole_run(found):
    run = found("lossy", 1000)
    film, page = film_of(run), film_html(run)
    assert film.users.size == 300
    assert "the picture shows 300 of 1,000 users" in page
    assert counts_at(film, film.end_s)["sent"] == run.counts["messages_sent"]
    assert film.messages.kind.size < run.trace.sent.kind.size
    inner = (film.messages.sender >= 0) & (film.messages.receiver >= 0)
    assert inner.mean() > 0.3  # they know each other
    assert "A sample" not in film_html(found("lossy"))


def test_a_film_of_300_users_is_small_and_loads_nothing(found):
    page = film_html(found("lossy", 300))
    assert len(page.encode()) <= 200_000
    assert len(film_of(found("lossy", 300)).users) == 300
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", page)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_without_javascript_the_page_has_the_counts_a_picture_and_the_statement(found):
    run = found("churn")
    page = film_html(run)
    for column, text in (("messages_sent", "sent by users"), ("messages_undelivered", "receiver offline")):
        assert re.search(rf"{text}</th>.*?<td id=\"run-\w+\">{run.counts[column]:,}</td>", page)
    assert page.count('class="user did') == 90
    assert all(str(escape(condition)) in page for condition in run.statement.conditions)
    assert "needs JavaScript" in page


def test_the_page_has_each_users_own_epsilon_rounded_up(found):
    run = found("fallback")
    stated = [float(text) for text in data_of(film_html(run))["users"]["epsilon"]]
    assert np.all(np.array(stated) >= run.epsilon)
    assert np.allclose(stated, run.epsilon, rtol=1e-3)
    assert len(set(stated)) > 1


def test_a_name_cannot_become_a_part_of_the_page(found):
    page = film_html(replace(found("complete"), name="</script><script>alert(1)</script>"))
    assert "<script>alert" not in page


def test_what_users_did_ends_as_the_run_ended(found):
    run = found("lossy")
    film = film_of(run)
    assert set(doing(film, -1.0)) == {0}
    last = doing(film, film.end_s)
    assert np.array_equal(last == 3, np.isfinite(run.submitted_s))
    assert np.array_equal(last == 4, ~np.isfinite(run.answered_s) & ~np.isfinite(run.submitted_s))


def test_a_reply_flies_from_her_who_answers_to_her_who_asked(found):
    film = film_of(found("complete"))
    m = film.messages
    row = int(np.flatnonzero((m.kind == REPLY) & (m.sender != m.receiver))[0])
    line = next(line for kind, *line in flying(film, m.sent_s[row]) if kind == REPLY and line[:2] == line[2:])
    assert line[:2] == pytest.approx(film.places.user[m.sender[row]].tolist())


def test_no_user_hides_another_or_leaves_the_stage(found):
    for network in ("complete", "scale_free"):
        places = film_of(found(network)).places
        gap = np.hypot(*(places.user[:, None] - places.user[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(places.user))
        assert gap.min() > places.radius
        assert ((places.user > 0) & (places.user < (1000, 640))).all()


OPTIONS = ["--set", "population.users=40", "--set", "population.num_clusters=2"]


def command(monkeypatch, *arguments):
    monkeypatch.setattr("p2p_sim.replicate.network_figures.draw", lambda *_: [])
    monkeypatch.setattr(sys, "argv", ["p2p-sim", "network", "network/retry", *OPTIONS, *map(str, arguments)])
    main()


def test_the_command_writes_the_page(tmp_path, monkeypatch, capsys):
    page = tmp_path / "a.html"
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, "--out", tmp_path / "figures", "--film", page)
    assert not ended.value.code
    assert str(page) in capsys.readouterr().out.splitlines()
    assert data_of(page.read_text())["run"]["sent"] > 40


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("a.txt", "p2p-sim: --film a.txt: must end in .html or .htm"),
        ("none/a.html", "p2p-sim: --film none/a.html: there is no directory none"),
    ],
)
def test_what_cannot_be_written_is_one_line_before_anything_runs(tmp_path, monkeypatch, capsys, file, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        command(monkeypatch, "--film", file)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert list(tmp_path.iterdir()) == []


def test_the_film_of_the_docs_is_made_anew(tmp_path):
    assert make_film.main(tmp_path, tmp_path, shots=False) == [tmp_path / "exchange.html"]
    assert (tmp_path / "exchange.html").read_bytes() == (ROOT / "docs" / "_static" / "exchange.html").read_bytes()
