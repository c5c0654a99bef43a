"""How Sphinx makes the site of the pages in this folder (`make docs`)."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from gf_i2p import __version__

_HERE = Path(__file__).parent
_LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!\w+:)([^)#\s]+)[^)]*\)")

project = "gf-i2p"
author = "the authors of gf-i2p"
version = release = "" if "unknown" in __version__ else __version__

extensions = ["myst_parser"]
myst_heading_anchors = 4  # links name headings as they do on a forge
smartquotes = False  # "--json" stays as it is typed

html_theme = "furo"
html_title = f"gf-i2p {version}".strip()
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_permalinks_icon = "#"
html_theme_options = {"source_edit_link": None, "top_of_page_buttons": []}


def _only_words(app: Sphinx, page: str, source: list[str]) -> None:
    """Take the links out that lead to a file of the repository beside this folder: the site does not have the file.

    A link to a file that does not exist stays, and the build fails.
    """

    def words(link: re.Match[str]) -> str:
        target = (Path(app.srcdir) / page).parent.joinpath(link[2]).resolve()
        return link[1] if target.exists() and not target.is_relative_to(_HERE) else link[0]

    source[0] = _LINK.sub(words, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _only_words)
