from .results_report import read_failures as read_failures
from .results_report import write_report as write_report
from .ro_crate import write_crate as write_crate
from .scenario_listing import scenario_in_order as scenario_in_order
from .scenario_listing import toml as toml
