"""Settings and sizes, as the program has them."""

import dask
import distributed  # noqa: F401  # brings its settings along
from sklearn.datasets import load_breast_cancer

from docs.values.forms import ROOT
from p2p_sim.audit.small_exchange_attack import LARGEST_CLUSTER
from p2p_sim.base.streams import Streams
from p2p_sim.film.film_record import MOST_USERS as FILMED
from p2p_sim.population.table import TableConfig
from p2p_sim.privacy import local_epsilon
from p2p_sim.privacy.overlays.fetch_distribution import CLOSELY, NEAR, SAMPLED
from p2p_sim.replicate.advice import UNEVEN
from p2p_sim.scenario import load_scenario
from p2p_sim.sweeps.local_workers import LocalProcesses

TUTORIAL = "docs/test_tutorial.py::test_every_command_runs_and_prints_what_the_page_shows"
DASK = "sweeps/test_dask.py::test_a_task_that_kills_its_dask_worker_is_given_up_and_no_other"
COALITION = "p2p-sim privacy --cluster-size 200 --flip-prob 0.1 --sampling-rate 0.5 --epsilon 0.5 --observer coalition"
SOURCES = {
    "local": (COALITION, "cli/test_commands.py::test_privacy_of_every_observer"),
    "attempts": (
        "p2p-sim sweep SWEEP.toml --workers 2",
        "sweeps/test_executors.py::test_a_task_that_kills_its_worker_is_given_up_and_no_other",
    ),
    "memory": ("p2p-sim sweep SWEEP.toml --dask sched.json", DASK),
    "failures": ("p2p-sim sweep SWEEP.toml --dask sched.json", DASK),
    "near": (
        "p2p-sim network SCENARIO.toml",
        "privacy/overlays/test_fetch_distribution.py::test_bound_lies_above_enumeration",
    ),
    "closely": (
        "p2p-sim run SCENARIO.toml",
        "privacy/overlays/test_large_overlays.py::test_a_row_names_the_figure_of_a_sample_beside_the_bound_for_all",
    ),
    "sampled": (
        "p2p-sim run SCENARIO.toml",
        "privacy/overlays/test_large_overlays.py::test_a_row_names_the_figure_of_a_sample_beside_the_bound_for_all",
    ),
    "filmed": (
        "p2p-sim network SCENARIO.toml --film FILE.html",
        "film/test_film.py::test_a_sample_of_a_larger_run_says_so_and_counts_the_whole_run",
    ),
    "audited": ("p2p-sim audit SCENARIO.toml", "audit/test_small_audits.py::test_mistakes_are_named"),
    "digits": ("p2p-sim run scenarios/quickstart.toml --set replicates=3", TUTORIAL),
    "tumours": ("p2p-sim run tumours.toml", TUTORIAL),
    "uneven": (
        "p2p-sim validate SCENARIO.toml",
        "population/test_own_data.py::test_scales_that_differ_by_more_than_100_times_warn_where_they_matter",
    ),
    "learned": ("p2p-sim run tumours.toml", TUTORIAL),
}

uneven = UNEVEN
closely, sampled, filmed = CLOSELY, SAMPLED, FILMED
local, near, audited = local_epsilon(0.1), NEAR, LARGEST_CLUSTER
attempts = LocalProcesses(1).attempts
memory = dask.config.get("distributed.worker.memory.terminate")
failures = dask.config.get("distributed.scheduler.allowed-failures") + 1
_quickstart = load_scenario(ROOT / "scenarios" / "quickstart.toml")
digits = len(_quickstart.population.sample((), Streams(_quickstart.seed, 0)).users.labels)
tumours = len(load_breast_cancer().target)
learned = tumours - round(TableConfig.model_fields["test_fraction"].default * tumours)
