"""How the manual is built.

    sphinx-build -W --keep-going -b html docs build/docs

The pages load nothing from other sites: no index of another project, no font and no script. Formulas are
converted to MathML (`mathml_formulas.py`). The build generates the help of the command line, the table of
agents and the list of problems (`manual_directives.py`), and the API from docstrings, which are plain text
(`plain_docstrings.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import psrl_pomdp  # noqa: E402
from psrl_pomdp._numba import jit as compiled  # noqa: E402, PLC2701 - its decorators are replaced below

# The API shows functions that can be compiled as plain functions, with their signatures.
compiled.jit = lambda **_: lambda function: function
compiled.jit_inline = lambda function: function

project = "psrl-pomdp"
author = "The psrl-pomdp developers"
copyright = author  # noqa: A001 - Sphinx's own name
version = release = psrl_pomdp.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "mathml_formulas",
    "plain_docstrings",
    "manual_directives",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["comparison_results.md"]  # included by comparing.md
nitpicky = True  # a reference without a target is an error
nitpick_ignore_regex = [
    (r"py:.*", r"(?!psrl_pomdp).*"),  # types of other packages, in signatures
    (
        r"py:class",
        r"psrl_pomdp\.inference\.\w+\.(AdaptationState|FreeRows|History|PossibleStates|Workspace)",
    ),  # buffers
    (r"py:class", r"psrl_pomdp\.testing\.calibration\.History"),
    (r"py:class", r"psrl_pomdp\.agents\.(current_episode\.CurrentEpisode|deferred_work\.(Plan|Refresh)Work)"),
    (r"py:class", r"psrl_pomdp\.models\.setting_parts\.SensorItself"),
    (r"py:class", r"psrl_pomdp\.sensors\.bracket\.PartT"),
    (r"py:class", r"psrl_pomdp\.agents\.(current_episode\.CurrentEpisode|deferred_work\.\w+)"),  # internal
]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    name: name for name in "Array Index Bases Codes Mask States State Tolerance Planner Prior Sched".split()
} | {"npt.ArrayLike": "ArrayLike"}
autodoc_preserve_defaults = True
highlight_language = "none"
python_maximum_signature_line_length = 90
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"psrl-pomdp {version}"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_theme_options = {"navigation_with_keys": False}
