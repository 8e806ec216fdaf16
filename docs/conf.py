"""Configuration of the docs site: `make docs` builds it into build/docs. Nothing is fetched from a network."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

project = "p2p-sim"
author = "The p2p-sim authors"
project_copyright = "The p2p-sim authors, Apache-2.0"
release = importlib.metadata.version("p2p-sim")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs.docstrings"]
exclude_patterns = ["values", "figures", "_static"]

myst_heading_anchors = 4
nb_execution_mode = "force"  # the notebooks, in a folder that is removed afterwards
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
highlight_language = "text"
smartquotes = False  # quotes belong to values

# Docstrings are plain text with `names` in single backticks, which reStructuredText calls the default role.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {
    "members": True,
    # what scikit-learn adds to every estimator
    "exclude-members": "set_fit_request, set_predict_request, set_score_request",
}
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!p2p_sim\b).*")]  # names of other projects lead nowhere

html_theme = "furo"
html_title = f"p2p-sim {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["film.css"]
html_show_sphinx = False
