"""Makes the film of the docs' start page, and pictures of it in a browser: `make figures`."""

import tomllib
from pathlib import Path

from docs.chromium import chromium
from p2p_sim.film import film_html
from p2p_sim.replicate.observed_network import observe
from p2p_sim.scenario import Scenario

ROOT = Path(__file__).parent.parent
SCENARIO = """
name = "losses-and-retries"
seed = 1

[population]
kind = "synthetic"
users = 80
num_clusters = 4

[mechanism]
kind = "label_exchange"
flip_prob = 0.2
sampling_rate = 0.6

[network]
start_window_s = 1.0
latency = { kind = "lognormal", median_s = 0.08, sigma = 0.5 }
loss = 0.12
request_timeout_s = 0.35
on_timeout = { retry = "redraw", attempts = 3 }
availability = { kind = "on_off", mean_on_s = 5.0, mean_off_s = 0.4 }

[adversaries]
coalition = { share = 0.05 }

[privacy]
delta = 1e-3
"""
SHOTS = {"light": ("did", "jump(OPENING - 1)"), "dark": ("coalition", "jump(clockAt(0.4 * film.end))")}
"""What the users' colours say in each picture, and when it is taken, by the colour scheme of the page."""


def main(
    page: Path = ROOT / "docs" / "_static", out: Path = ROOT / "docs" / "figures", shots: bool = True
) -> list[Path]:
    """Write the film into the directory `page`, and pictures of it into `out` if `shots`, which need Chromium."""
    found = observe(Scenario.from_tree(tomllib.loads(SCENARIO)))
    film = page / "exchange.html"
    page.mkdir(exist_ok=True)
    film.write_text(film_html(found), encoding="utf-8")
    return [film, *(_shots(film, out) if shots else [])]


def _shots(film: Path, out: Path) -> list[Path]:
    paths = []
    with chromium() as browser:
        for scheme, (view, moment) in SHOTS.items():
            page = browser.new_page(
                viewport={"width": 1280, "height": 930},
                color_scheme=scheme,  # type: ignore[arg-type]
                reduced_motion="reduce",
            )
            page.goto(film.resolve().as_uri())
            page.select_option("#view", view)
            page.select_option("#user", "12")
            page.evaluate(moment)
            paths.append(out / f"film-{scheme}.png")
            page.screenshot(path=paths[-1])
    return paths


if __name__ == "__main__":
    for path in main():
        print(path)
