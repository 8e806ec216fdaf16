"""Certificates: the verifier proves what is true, refuses what is not, and needs nothing but Python."""

import ast
import copy
import json
import math
import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from p2p_sim.cli.main import main
from p2p_sim.privacy import LabelExchange, certificate, local_epsilon
from p2p_sim.privacy.certificates import verify_certificate as verifier
from p2p_sim.privacy.certificates.verify_certificate import Refused, Unreadable, verify

SOURCE = Path(verifier.__file__)
SMALL = [(2, 0.1, 0.5, 1, 1e-3), (3, 0.25, 1.0, 1, 1e-2), (7, 0.05, 0.3, 2, 1e-3), (12, 0.1, 0.5, 1, 1e-4),
         (20, 0.2, 1.0, 3, 1e-6), (17, 0.4, 0.7, 1, 1e-5)]  # fmt: skip
LARGER = [(40, 0.1, 0.1, 1, 1e-6), (40, 0.1, 0.5, 1, 1e-6), (40, 0.1, 1.0, 1, 1e-6), (33, 0.01, 0.9, 2, 1e-8)]
"""n, α, θ, R, δ."""


def made(n: int, alpha: float, theta: float, rounds: int, delta: float, epsilon: float | None = None) -> dict:
    return json.loads(certificate(LabelExchange(n, alpha, theta, rounds), delta, epsilon))


def each(n: int) -> list[dict[str, int]]:
    """The cover that gives nothing away: every m on its own."""
    return [{"from": m, "to": m, "revealed": 0} for m in range((n - 1) // 2 + 1)]


@pytest.mark.parametrize("case", [*SMALL, *LARGER])
def test_the_accountants_epsilon_is_proved_as_it_is(case):
    n, alpha, theta, rounds, delta = case
    claim = made(*case)["claim"]
    bound = LabelExchange(n, alpha, theta, rounds).epsilon(delta)
    assert claim == {"n": n, "flip_prob": repr(alpha), "sampling_rate": repr(theta), "rounds": rounds,
                     "epsilon": repr(bound.epsilon_upper), "delta": repr(delta)}  # fmt: skip


@pytest.mark.parametrize("case", [*SMALL, *LARGER])
def test_what_is_proved_is_the_truth_to_nine_digits(case):
    """δ of all data sets is known to more digits than that up to 64 users."""
    n, alpha, theta, rounds, _ = case
    exchange, cert = LabelExchange(n, alpha, theta, rounds), made(*case) | {"bits": 150, "drop": 120, "cover": each(n)}
    for share in (0.0, 0.1, 0.3):
        epsilon = share * local_epsilon(alpha)
        true = exchange.delta(epsilon)
        assert true.lower == pytest.approx(true.upper, rel=1e-10)
        cert["claim"] |= {"epsilon": repr(epsilon), "delta": repr(true.upper * (1 + 1e-9))}
        verify(cert)
        cert["claim"]["delta"] = repr(true.lower * (1 - 1e-9))
        with pytest.raises(Refused, match="above the claim"):
            verify(cert)


def test_one_m_and_others_revealed_cost_at_least_as_much_as_every_m_they_stand_for():
    n, alpha, theta, epsilon = 9, 0.2, 0.6, 0.4
    true = []
    for ones in range(n):
        zero, one = LabelExchange(n, alpha, theta).privacy_loss_pmfs(ones)
        pairs = [(zero[view], one[view]) for view in zero]
        factor = math.exp(epsilon)
        true.append([sum(max(0.0, p - factor * q) for p, q in pairs), sum(max(0.0, q - factor * p) for p, q in pairs)])
    claim = {"n": n, "flip_prob": "0.2", "sampling_rate": "0.6", "rounds": 1, "epsilon": "0.4", "delta": "1"}
    for first in range(n):
        for revealed in range(n - first):
            proof = verifier.Proof(claim, 120, 100)
            worst = max(max(both) for both in true[first : first + revealed + 1])
            proof.delta = Fraction(worst * (1 - 1e-12))
            with pytest.raises(Refused, match="above the claim"):
                proof.check(first, first + revealed, revealed)
            if not revealed:
                proof.delta = Fraction(worst * (1 + 1e-12))
                proof.check(first, first, 0)


def test_a_cluster_that_is_not_evaluated_at_every_m():
    """300 users take few intervals, and ε is still proved to six digits and more."""
    cert = made(300, 0.1, 0.1, 1, 1e-6)
    assert len(cert["cover"]) < 8
    lower = LabelExchange(300, 0.1, 0.1).epsilon(1e-6).epsilon_lower
    with pytest.raises(ValueError, match=r"epsilon = .*: does not hold at δ = 1e-06: where 0 others"):
        made(300, 0.1, 0.1, 1, 1e-6, lower * (1 - 1e-6))


@pytest.mark.parametrize(
    ("case", "epsilon"),
    [((5, 0.5, 1.0, 1, 1e-9), 0.0), ((9, 0.1, 1.0, 1, 1e-12), local_epsilon(0.1)), ((6, 0.0, 0.1, 1, 0.5), 0.0),
     ((6, 1e-300, 1e-300, 1, 0.5), 0.0), ((50, 0.001, 0.01, 1, 1e-300), None), ((4, 0.3, 0.5, 40, 1e-6), None),
     ((4, 0.3, 1e-300, 1, 1e-30), 0.0)],
)  # fmt: skip
def test_the_ends_of_the_ranges(case, epsilon):
    found = made(*case, epsilon=epsilon)
    assert "holds" in verify(found)


def lie(**claim) -> dict:
    cert = copy.deepcopy(BASE)
    cert["claim"] |= claim
    return cert


def covered(*parts: tuple[int, int, int]) -> dict:
    cover = [{"from": first, "to": last, "revealed": revealed} for first, last, revealed in parts]
    return {**copy.deepcopy(BASE), "cover": cover}


BASE = made(12, 0.1, 0.5, 1, 1e-4)
WHOLE = [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (5, 5, 0)]
LIES = {
    "a smaller ε": (lie(epsilon="1.0204"), "above the claim"),
    "a smaller δ": (lie(delta="9.999e-5"), "above the claim"),
    "fewer flips": (lie(flip_prob="0.0999"), "above the claim"),
    "more submissions": (lie(sampling_rate="0.501"), "above the claim"),
    "more rounds": (lie(rounds=2), "above the claim"),
    "fewer users": ({**lie(n=11), "cover": each(11)}, "above the claim"),
    "more revealed than δ allows": (covered((0, 5, 5)), "above the claim"),
    "few bits": ({**BASE, "bits": 16, "drop": 16}, "above the claim"),
    "much dropped": ({**BASE, "drop": 3}, "above the claim"),
    "everything dropped": ({**BASE, "drop": 1, "cover": each(12)}, "above the claim"),
    "a gap": (covered(*WHOLE[:2], *WHOLE[3:]), "starts at m = 3, and 2 is"),
    "an overlap": (covered(*WHOLE[:3], (2, 2, 0), *WHOLE[3:]), "starts at m = 2, and 3 is"),
    "an interval twice": (covered(*WHOLE, WHOLE[-1]), "starts at m = 5, and 6 is"),
    "another order": (covered(WHOLE[1], WHOLE[0], *WHOLE[2:]), "starts at m = 1, and 0 is"),
    "the last m left out": (covered(*WHOLE[:-1]), "ends at m = 4, and 5 is"),
    "beyond the last m": (covered(*WHOLE, (6, 6, 0)), "from: must be a whole number from 0 to 5"),
    "an empty interval": (covered((0, -1, 0), *WHOLE), "to: must be a whole number from 0 to 5"),
    "a backward interval": (covered(WHOLE[0], WHOLE[1], (2, 1, 0), *WHOLE[2:]), "m from 2 to 1 is not served"),
    "too few revealed": (covered((0, 0, 0), (1, 3, 1), *WHOLE[4:]), "m from 1 to 3 is not served by revealing 1"),
    "all revealed": (covered((0, 5, 12)), "revealed: must be a whole number from 0 to 11"),
    "more ones than there are": (covered(*WHOLE[:5], (5, 5, 7)), "of 4 others who are not revealed 5 cannot hold 1"),
    "a negative number revealed": (covered((0, 0, -1)), "revealed: must be a whole number from 0 to 11"),
    "no cover": ({**BASE, "cover": []}, "cover: must be a list of intervals"),
    "a cover of nothing": ({**BASE, "cover": [{}]}, "cover: must be an object with the keys from, to, revealed"),
    "a cover that is an object": ({**BASE, "cover": {"from": 0}}, "cover: must be a list"),
    "true for one": (lie(rounds=True), "rounds: must be a whole number"),
    "false for nothing": ({**BASE, "cover": [{"from": False, "to": 5, "revealed": 5}]}, "from: must be a whole"),
    "a whole number as a string": (lie(n="12"), "n: must be a whole number from 2 to 65536"),
    "a number for a string": (lie(epsilon=2), "epsilon: must be a string"),
    "nothing": (lie(epsilon=None), "epsilon: must be a string"),
    "NaN": (lie(epsilon="nan"), "epsilon: must be a string"),
    "infinity": (lie(epsilon="inf"), "epsilon: must be a string"),
    "a negative ε": (lie(epsilon="-1"), "epsilon: must be a string"),
    "a huge string": (lie(epsilon="1" * 1_000_000), "epsilon: must be a string"),
    "a huge exponent": (lie(epsilon="1e9999"), "epsilon: must be a string"),
    "a huge ε": (lie(epsilon="1e999"), "epsilon: must be at most 1000"),
    "other digits": (lie(epsilon="１.１"), "epsilon: must be a string"),
    "a line break after it": (lie(epsilon="1.1\n"), "epsilon: must be a string"),
    "a division by nothing": (lie(epsilon="1/0"), "epsilon: must be a string"),
    "flips above a half": (lie(flip_prob="0.6"), "flip_prob: must be at most 1/2"),
    "a rate above one": (lie(sampling_rate="1.1"), "sampling_rate: must be at most 1"),
    "a δ above one": (lie(delta="2"), "delta: must be at most 1"),
    "very many users": (lie(n=10**9), "n: must be a whole number from 2 to 65536"),
    "one user": (lie(n=1), "n: must be a whole number from 2 to 65536"),
    "very many rounds": (lie(rounds=10**9), "rounds: must be a whole number from 1 to 21845"),
    "too many bits": ({**BASE, "bits": 10**6}, "bits: must be a whole number from 16 to 1200"),
    "more dropped than bits": ({**BASE, "drop": 1000}, "drop: must be a whole number from 1 to"),
    "another version": ({**BASE, "version": 2}, "version: is 2, and 1 is known"),
    "one key more": ({**BASE, "blocks": []}, "must be an object with the keys"),
    "one key of the claim more": (lie(observer="everybody"), "claim: must be an object with the keys"),
    "a key less": ({key: BASE[key] for key in BASE if key != "drop"}, "must be an object with the keys"),
    "a list": ([BASE], "the certificate: must be an object"),
    "a number": (1, "the certificate: must be an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused_in_one_line(name):
    false, why = LIES[name]
    with pytest.raises(Refused, match=why.replace("(", r"\(")) as refusal:
        verify(false)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 200


def test_what_the_lies_are_made_of_is_true():
    verify(BASE)
    verify(covered(*WHOLE))
    verify({**lie(epsilon="10205/10000", flip_prob="1/10", delta="0.0001"), "cover": each(12)})


def test_a_certificate_cannot_run_forever(monkeypatch):
    monkeypatch.setattr(verifier, "LARGEST_WORK", 100_000)
    claim = {"n": 65_536, "flip_prob": "0.5e-9", "sampling_rate": "0.5", "rounds": 4, "epsilon": "0.1", "delta": "0"}
    with pytest.raises(Refused, match="needs more work than is allowed, 100000 numbers"):
        verify({"version": 1, "claim": claim, "bits": 1200, "drop": 1200, "cover": each(65_536)})


TEXTS = {
    '{"version": 1, "version": 1}': (1, "refused: a key occurs twice in one object"),
    '{"version": 1.0}': (1, "refused: numbers must be whole or in strings"),
    '{"version": NaN}': (1, "refused: numbers must be whole or in strings"),
    '{"version": 1e0}': (1, "refused: numbers must be whole or in strings"),
    '{"version": ' + "1" * 4000 + "}": (1, "refused: the certificate: must be an object"),
    " " * 2**21: (1, "refused: the file has more than 1048576 bytes"),
    '{"version": ': (2, "unreadable: "),
    "": (2, "unreadable: "),
    "[" * 100_000: (2, "unreadable: "),
    '{"version": ' + "1" * 5000 + "}": (2, "unreadable: "),
}


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_file_that_is_not_a_certificate(number, tmp_path, capsys):
    text, (status, says) = list(TEXTS.items())[number]
    (tmp_path / "c.json").write_text(text)
    assert verifier.main([str(tmp_path / "c.json")]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(says)
    assert err.count("\n") == 1


def test_files_that_are_not_there(tmp_path, capsys):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for arguments in ([], ["--help"], ["a", "b"], [str(tmp_path / "none")], [str(tmp_path)], [str(tmp_path / "bytes")]):
        assert verifier.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 6


def changed(rng: random.Random, cert: dict) -> bytes:
    """A certificate with one to three changes, in what it says or, now and then, in a byte of its text."""
    cert = copy.deepcopy(cert)
    claim, cover = cert["claim"], cert["cover"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind, part = rng.randrange(9), rng.choice(cover) if cover else {}
        if kind <= 2:
            key = rng.choice(("flip_prob", "sampling_rate", "epsilon", "delta"))
            factor = 1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-9, 0)
            claim[key] = rng.choice((repr, lambda x: str(Fraction(x).limit_denominator(10**9))))(
                float(Fraction(claim[key])) * factor
            )
        elif kind == 3:
            claim[rng.choice(("n", "rounds"))] += rng.choice((-1, 1, 1))
        elif kind == 4:
            cert["bits"], cert["drop"] = cert["bits"] + rng.randrange(-40, 9), cert["drop"] + rng.randrange(-50, 9)
        elif kind <= 6 and part:
            part[rng.choice(("from", "to", "revealed"))] += rng.choice((-2, -1, 1, 2))
        elif kind == 7 and len(cover) > 1:
            place = rng.randrange(len(cover) - 1)
            gone = cover.pop(place + 1)
            if rng.random() < 0.7:
                cover[place] |= {"to": gone["to"], "revealed": gone["to"] - cover[place]["from"]}
        elif kind == 8 and part:
            cover.insert(rng.randrange(len(cover) + 1), dict(part))
    text = bytearray(json.dumps(cert).encode())
    if rng.random() < 0.15:
        text[rng.randrange(len(text))] = rng.choice(b'0123456789.-e/"{}[],: ')
    return bytes(text)


def attacked(count: int, cases: list[tuple], seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """What becomes of randomly changed certificates, and those that are accepted and claim less than the truth."""
    rng, tally, wrong = random.Random(seed), Counter(), []
    bases = [made(*case) for case in cases]
    for _ in range(count):
        (folder / "c.json").write_bytes(changed(rng, rng.choice(bases)))
        try:
            cert = verifier.read(str(folder / "c.json"))
            verify(cert)
        except (Refused, Unreadable) as error:
            tally["above" if "above the claim" in str(error) else type(error).__name__] += 1
            continue
        c = cert["claim"]
        epsilon, delta, alpha, theta = (
            float(Fraction(c[key])) for key in ("epsilon", "delta", "flip_prob", "sampling_rate")
        )
        true = LabelExchange(c["n"], alpha, theta, c["rounds"]).delta(epsilon).lower if theta else 0.0
        tally["true"] += 1
        if true > delta:
            wrong.append(f"δ = {true} for {c}")
    return tally, wrong


def test_no_changed_certificate_is_accepted_below_the_truth(tmp_path):
    tally, wrong = attacked(300, SMALL[:4], 1, tmp_path)
    assert wrong == []
    assert min(tally["true"], tally["above"], tally["Refused"]) >= 20
    assert tally["Unreadable"] >= 3


@pytest.mark.slow
def test_no_changed_certificate_of_ten_thousand_is_accepted_below_the_truth(tmp_path):
    tally, wrong = attacked(10_000, [*SMALL, *LARGER], 2, tmp_path)
    assert wrong == []
    assert min(tally["true"], tally["above"], tally["Refused"]) >= 1_000
    assert tally["Unreadable"] >= 100


def test_a_verifier_that_leaves_out_the_worst_data_sets_is_found_out(tmp_path, monkeypatch):
    """Control: false claims are among the changed certificates, and are seen where they are accepted."""
    covering = verifier.covering
    monkeypatch.setattr(verifier, "covering", lambda cover, n: covering(cover, n)[1:])
    assert attacked(100, SMALL[:4], 1, tmp_path)[1]


def test_a_verifier_that_charges_nothing_for_what_is_dropped_is_found_out(monkeypatch):
    """Control: a false claim that is refused passes without the charge."""
    false = {**lie(epsilon="0.9"), "drop": 8, "cover": each(12)}
    with pytest.raises(Refused, match="above the claim"):
        verify(false)
    monkeypatch.setattr(
        verifier.Proof, "divergence",
        lambda proof, p, q: sum(max(0, proof.keep * x - proof.lose * y) for x, y in zip(p, q, strict=True)),
    )  # fmt: skip
    monkeypatch.setattr(verifier.Proof, "binomial", all_of_it(verifier.Proof.binomial))
    verify(false)


def all_of_it(binomial):
    """A law from which nothing is dropped, so that only what is dropped of A and B counts."""

    def whole(proof, trials, p):
        cut, proof.cut = proof.cut, 1
        law = binomial(proof, trials, p)
        proof.cut = cut
        return law

    return whole


def test_the_verifier_is_one_small_file_of_standard_python():
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported <= set(sys.stdlib_module_names)


def test_the_command_and_the_verifier_on_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(
            sys, "argv", ["p2p-sim", "certify", "--cluster-size", "40", "--flip-prob", "0.1", *arguments]
        )
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        return status, *capsys.readouterr()

    usual = ("--sampling-rate", "0.5", "--delta", "1e-6", "--out")
    status, out, err = call(*usual, "claim.json", "--verifier", ".")
    assert (status, out.splitlines()[0], err) == (0, "claim.json", "")
    run = [sys.executable, "-I", "-S", "verify_certificate.py", "claim.json"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("verified: (epsilon, delta) = (0.788151444")
    assert "1e-06) holds for one user's binary label in a cluster of 40 users" in done.stdout
    assert done.stdout.count("\n") == 1
    cert = json.loads((tmp_path / "claim.json").read_text())
    cert["claim"]["epsilon"] = "0.788151"
    (tmp_path / "claim.json").write_text(json.dumps(cert))
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert call(*usual, "again.json", "--quiet")[:2] == (0, "again.json\n")
    (tmp_path / "v").mkdir()
    for arguments, says in (
        ((*usual, "again.json"), "--out again.json: exists already"),
        ((*usual, "no/new.json"), "--out no/new.json: there is no directory no"),
        ((*usual, "new.json", "--verifier", "."), "--verifier verify_certificate.py: exists already"),
        ((*usual, "v/verify_certificate.py", "--verifier", "v"), "--out v/verify_certificate.py: is the file of"),
        ((*usual, "new.json", "--epsilon", "0.7"), "--epsilon 0.7: does not hold at δ = 1e-06"),
        ((*usual, "new.json", "--epsilon", "inf"), "--epsilon inf: is certified up to 1,000"),
        ((*usual, "new.json", "--flip-prob", "0"), "--delta 1e-06: no finite ε holds here"),
        ((*usual, "new.json", "--cluster-size", "70000"), "--cluster-size 70000: is certified up to 65,536 users"),
        ((*usual, "new.json", "--cluster-size", "60000", "--rounds", "5"), "--rounds 5: is certified up to 262,144"),
    ):
        status, out, err = call(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"p2p-sim: {says}")
    assert not (tmp_path / "new.json").exists()
