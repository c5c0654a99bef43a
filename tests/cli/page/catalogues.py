"""Reads the messages of the console's page from the code, and keeps the catalogues of translations.

    python -m tests.cli.page.catalogues extract    new messages into every .po, without a translation; old ones go
    python -m tests.cli.page.catalogues compile    every .po becomes the .mo beside it, which the page reads

The domain `page` has the page's own words. The domain `node` has the forms of sentences that a node, or the command
line, makes in English (`gf_i2p.cli.page.sentences`): each interpolation of such a sentence is a place.
"""

import ast
import io
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from gf_i2p.cli.page.sentences import FULL_STOP
from gf_i2p.cli.page.words import DIRECTORY, ENGLISH, LANGUAGES, NODE, PAGE

ROOT: Final = Path(__file__).parents[3]
DOMAINS: Final = (PAGE, NODE)
TRANSLATED: Final = tuple(language for language in LANGUAGES if language != ENGLISH)
_METHODS: Final = [("**/templates/**.html", "jinja2"), ("**.py", "python")]
_KEYWORDS: Final[dict[str, tuple[int, ...] | None]] = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    "translated": None,
    "counted": (1, 2),
    "marked": None,
}
PERSONAL: Final = {
    "change.reason": "reason",
    "exclusion.reason": "reason",
    "new.reason": "reason",
    "exclusion.by": "by",
}
"""Values that a person has typed, with the names of their places. The page shows these as they are."""

_ALL: Final[tuple[str, ...]] = ()
SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "gf_i2p/farm/explanation.py": ("why_publisher", "_why_nobody"),
    "gf_i2p/farm/events.py": ("_changes", "_new_publisher", "_leaves"),
    "gf_i2p/farm/admin_entries.py": ("what",),
    "gf_i2p/farm/choice/candidates.py": ("objection",),
    "gf_i2p/farm/choice/publisher.py": ("why_not",),
    "gf_i2p/farm/choice/listed_leaves.py": ("objection", "why_not_listed"),
    "gf_i2p/farm/choice/nested_farms.py": ("objection",),
    "gf_i2p/farm/publishing/announcement.py": _ALL,
    "gf_i2p/farm/publishing/cadence.py": _ALL,
    "gf_i2p/farm/publishing/confirmation.py": _ALL,
    "gf_i2p/farm/publishing/failover.py": _ALL,
    "gf_i2p/farm/publishing/lease.py": _ALL,
    "gf_i2p/farm/publishing/meta.py": _ALL,
    "gf_i2p/raft/follower.py": ("pass_over",),
    "gf_i2p/admin/monitoring/health.py": ("_severe", "_mild"),
    "gf_i2p/admin/client.py": ("request", "_follow", "_ask", "_certificate_of", "_json_of", "_why"),
    "gf_i2p/cli/commands/console.py": ("_farm",),
    "gf_i2p/cli/shared/answer_text.py": (
        "MEMBERSHIP_TEXTS",
        "NOT_KNOWN",
        "publishing_lines",
        "_progress_words",
        "_serving_lines",
        "_load_line",
        "_pause",
    ),
    "gf_i2p/cli/shared/farm_import.py": _ALL,
    "gf_i2p/cli/shared/local_client.py": ("_open_response",),
    "gf_i2p/node/consensus/driver.py": ("_NO_LEADER", "_refusal", "post", "_unknown", "_reachable_leader"),
    "gf_i2p/node/status/admin_status.py": ("_leaves",),
    "gf_i2p/node/node.py": ("_standing_changed",),
    "gf_i2p/node/disk_use.py": ("full", "MAKE_ROOM"),
    "gf_i2p/node/report/leaf_farm.py": ("leaf", "_objection"),
    "gf_i2p/node/report/leaf_forward.py": ("run",),
    "gf_i2p/node/report/local_leaf.py": ("__init__", "fault"),
    "gf_i2p/node/report/own_leaves.py": ("_fault", "_named"),
    "gf_i2p/node/report/router_info_file.py": _ALL,
    "gf_i2p/node/report/router_question.py": _ALL,
    "gf_i2p/node/report/service_watch.py": ("__init__", "trouble", "check"),
    "gf_i2p/node/publish/keys_watch.py": _ALL,
    "gf_i2p/node/publish/publishing_keys.py": ("described", "_span"),
    "gf_i2p/node/publish/failover.py": ("_situation",),
    "gf_i2p/node/publish/meta.py": ("_build", "_give", "_defect"),
    "gf_i2p/node/files/farm_file.py": ("differences", "_of_leaves", "_of_servers", "_own_setting"),
    "gf_i2p/transport/peer_link.py": (
        "doubt",
        "_run",
        "_attempt",
        "advice",
        "connection_lost",
        "_receive_responses",
        "_check_overdue",
    ),
    "gf_i2p/transport/tls/tls_transport.py": ("dial", "_dial", "_dial_address", "_check_pin", "_dial_error"),
    "gf_i2p/transport/i2p/i2p_transport.py": (
        "dial",
        "_through_tunnel",
        "_greet",
        "_no_proxy_error",
        "_refusal_error",
        "_socks_login_error",
    ),
    "gf_i2p/transport/i2p/session_dialler.py": ("dial",),
    "bridges/i2pcontrol/jsonrpc_client.py": ("__str__", "call", "_authenticate", "_exchange", "_post", "_status_text"),
    "bridges/i2cp/connection.py": ("_greet", "follow_clock", "send", "_hung_up_error", "_connect"),
}
"""The modules and folders that make sentences for the page, with the functions and constants there; empty: all."""


@cache
def messages(domain: str) -> Catalog:
    """Return the messages of a domain as the code has them."""
    return _page_messages() if domain == PAGE else _node_messages()


def _page_messages() -> Catalog:
    found = Catalog()
    place = ROOT / "gf_i2p/cli/page"
    for _, _, message, _, _ in extract_from_dir(
        place, _METHODS, {"**/templates/**.html": {"extensions": "jinja2.ext.i18n"}}, _KEYWORDS
    ):
        found.add(message)
    return found


def _node_messages() -> Catalog:
    found = Catalog()
    for source, names in SOURCES.items():
        paths = sorted((ROOT / source).glob("*.py")) if not source.endswith(".py") else [ROOT / source]
        for path in paths:
            for message in forms(path.read_text("utf-8"), names):
                found.add(message)
    found.add(FULL_STOP)
    return found


# Forms of sentences ---------------------------------------------------------------------------------------------------


def forms(source: str, names: Collection[str] = ()) -> Iterator[str]:
    """Yield the forms of the sentences in a module's text. `names`: of functions and constants; empty: of all."""
    for node in _chosen(ast.parse(source), frozenset(names)):
        yield from _Sentences().found_in(node)


def _chosen(module: ast.Module, names: frozenset[str]) -> Iterator[ast.AST]:
    if not names:
        yield module
        return
    left = set(names)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        else:
            continue
        if name in names:
            left.discard(name)
            yield node
    assert not left, f"there is no {', '.join(sorted(left))}"


class _Sentences(ast.NodeVisitor):
    """Collects constants and f-strings of two words at least, without docstrings, logs and checks."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def found_in(self, node: ast.AST) -> list[str]:
        self.visit(node)
        return self._found

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave checks out: nobody sees their texts."""

    def visit_Compare(self, node: ast.Compare) -> None:
        """Leave comparisons out."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if "log" not in name and name not in {"ValueError", "AssertionError", "NotImplementedError"}:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._take(node.value.replace("{", "{{").replace("}", "}}"))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text, count = "", 0
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value).replace("{", "{{").replace("}", "}}")
                continue
            assert isinstance(part, ast.FormattedValue)
            if (name := ast.unparse(part.value)) in PERSONAL:
                text += f"{{{PERSONAL[name]}}}"
            else:
                text += f"{{{count}}}"
                count += 1
            self.visit(part.value)
        self._take(text, least=1)

    def _take(self, text: str, *, least: int = 2) -> None:
        words = re.findall(r"(?<!\S)\(?[A-Za-z][a-z'’]*(?![^\s,;:.?)])", re.sub(r"\{\w*\}", "", text))
        if len(words) >= least and " " in text:
            self._found.append(text)


# Files ----------------------------------------------------------------------------------------------------------------


def path_of(language: str, domain: str, ending: str = "po") -> Path:
    """Return the place of a catalogue."""
    return DIRECTORY / language / "LC_MESSAGES" / f"{domain}.{ending}"


class Translations(Catalog):
    """A catalogue whose header has only what its reading needs: no dates, no names, no version of Babel."""

    def _get_mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Language", str(self.locale)),
            ("Plural-Forms", self.plural_forms),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ]

    mime_headers = property(_get_mime_headers)


def load(language: str, domain: str) -> Translations:
    """Read a .po file; empty when there is no file yet."""
    found, path = Translations(locale=language, header_comment="", fuzzy=False), path_of(language, domain)
    if path.exists():
        with path.open("rb") as file:
            for message in read_po(file, locale=language):
                if message.id:
                    found.add(message.id, message.string, flags=message.flags)
    return found


def compiled(catalog: Catalog) -> bytes:
    """Return the .mo of a catalogue."""
    data = io.BytesIO()
    write_mo(data, catalog)
    return data.getvalue()


def extract() -> None:
    """Bring each .po up to the code: a new message has no translation, and a message that is gone goes."""
    for domain in DOMAINS:
        template = messages(domain)
        for language in TRANSLATED:
            old = load(language, domain)
            new = Translations(locale=language, header_comment="", fuzzy=False)
            for message in template:
                if message.id:
                    known = old.get(message.id)
                    new.add(message.id, known.string if known is not None else "")
            save(language, domain, new)


def save(language: str, domain: str, catalog: Translations) -> None:
    """Write a .po."""
    path = path_of(language, domain)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, no_location=True, width=120)


def compile_all() -> None:
    """Make each .mo."""
    for language in TRANSLATED:
        for domain in DOMAINS:
            path_of(language, domain, "mo").write_bytes(compiled(load(language, domain)))


if __name__ == "__main__":
    {"extract": extract, "compile": compile_all}[sys.argv[1]]()
