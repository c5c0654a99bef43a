"""The list of the generated pages, and what stands on each of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from integration.reference import api, commands, exit_codes, files, limits, log_events, metrics, settings

DIRECTORY: Final = Path(__file__).parent.parent.parent / "docs" / "reference"
_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "api.md": api.page,
    "commands.md": commands.page,
    **{f"commands-{name}.md": text for name, text in commands.group_pages().items()},
    "exit-codes.md": exit_codes.page,
    "files.md": files.page,
    "limits.md": limits.page,
    "log-events.md": log_events.page,
    "metrics.md": metrics.page,
    "settings.md": settings.page,
}
_MARK: Final = "<!-- `make reference` makes this page from the code. Change the code, not the page. -->\n"


def texts() -> dict[str, str]:
    """Return the text of each generated page, by the name of its file."""
    return {name: f"{make().rstrip()}\n\n{_MARK}" for name, make in _PAGES.items()}
