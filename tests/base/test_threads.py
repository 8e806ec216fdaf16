"""One numerical thread, for libraries that are loaded at any time."""

import json
import os
import subprocess
import sys

from tests.conftest import ROOT

SCRIPT = """
import json, numpy
from threadpoolctl import ThreadpoolController, threadpool_limits
from p2p_sim.base.streams import one_thread
def threads():
    return [library["num_threads"] for library in ThreadpoolController().info()]
with one_thread():
    first = threads()
import scipy.linalg
threadpool_limits(2)
free = threads()
with one_thread():
    held = threads()
print(json.dumps([first, free, held, threads()]))
"""


def test_a_library_that_is_loaded_later_has_one_thread_too():
    setting = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=setting, capture_output=True, text=True, check=True)
    first, free, held, after = json.loads(done.stdout)
    assert len(first) < len(free)
    assert set(first) == set(held) == {1}
    assert free == after
    assert set(free) == {2}
