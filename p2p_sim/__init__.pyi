from .base.errors import InputError as InputError
from .learning.exchange_classifier import LabelExchangeClassifier as LabelExchangeClassifier
from .population.data_frame import table as table
from .replicate.run import Result as Result
from .replicate.run import release as release
from .replicate.run import run as run
from .results.axes import plot as plot
from .results.results_directory import load_results as load_results
from .results.rows import load_statements as load_statements
from .scenario import Scenario as Scenario
from .scenario import load_scenario as load_scenario
from .sweeps.run_scenario import run_all as run_all
from .sweeps.run_sweep import sweep as sweep

__version__: str
