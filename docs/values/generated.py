"""The pages that the code writes whole."""

from docs import generated

SOURCE = ("python -m docs.values", "docs/test_generated.py::test_the_code_writes_what_the_pages_have")

command_line, gallery, scenario_keys = generated.command_line(), generated.gallery(), generated.scenario_keys()
parameter_columns = generated.parameter_columns()
