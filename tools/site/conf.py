"""Configuration of Sphinx for the folder of pages that `tools.site` prepares."""

import tomllib
from pathlib import Path

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "devmem"
author = _PROJECT["authors"][0]["name"]
copyright = author  # noqa: A001 - Sphinx names it so
release = version = _PROJECT["version"]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
# Links to headings are written as on Git hosts, where the last level that has an anchor is the fourth here.
myst_heading_anchors = 4
# Annotations are linked by their last name, as in `type: str`, which several classes may have.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# A site that works without a network has no fonts or scripts of others, and no links to an unknown repository.
html_theme_options = {"navigation_with_keys": False}
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
html_copy_source = False
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
add_module_names = False
python_maximum_signature_line_length = 88
