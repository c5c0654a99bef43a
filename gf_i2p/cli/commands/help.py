"""`gf-i2p help`: the pages of the documentation, in the terminal."""

import argparse
import sys

from gf_i2p.cli.shared import help_pages
from gf_i2p.cli.shared.command import Answer
from gf_i2p.cli.shared.errors import CommandError, Exit
from gf_i2p.cli.shared.help_pages import KINDS, HelpPage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "value",
        metavar="TOPIC",
        nargs="?",
        type=_known_topic,
        choices=tuple(help_pages.pages()),  # for the completion; `type` refuses all others before
        help="the page to show, as `failover`; without a topic, all topics are listed",
    )


def _known_topic(text: str) -> str:
    try:
        return help_pages.find(text, help_pages.pages()).topic
    except LookupError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(options: argparse.Namespace) -> Answer | Exit:
    """Show a page, or list the topics. A terminal gets the page set in its width, anything else the Markdown text."""
    among = help_pages.pages()
    if options.value is None:
        return _topics(list(among.values()))
    page = among[options.value]
    data = {"topic": page.topic, "kind": page.kind, "title": page.title, "text": page.text}
    if options.json or not sys.stdout.isatty():
        return Answer(data, page.text.rstrip("\n"), is_file=True)
    from gf_i2p.cli.shared import help_screen  # noqa: PLC0415 -- rich takes 50 ms, which a script need not wait for

    help_screen.show_page(help_pages.with_topics(page, among))
    return Exit.OK


def _topics(pages: list[HelpPage]) -> Answer:
    """List the topics by kind."""
    if not pages:
        raise CommandError(
            f"the pages are missing in {help_pages.directory()}: install gf-i2p anew, or read docs/ in the repository"
        )
    width = max(len(page.topic) for page in pages)
    lines = []
    for kind, heading in KINDS.items():
        own = [page for page in pages if page.kind == kind]
        if own:
            lines += [heading, *(f"  {page.topic:{width}}  {page.first_sentence or page.title}" for page in own), ""]
    lines.append("`gf-i2p help TOPIC` shows a page.")
    data = [{"topic": p.topic, "kind": p.kind, "title": p.title, "about": p.first_sentence} for p in pages]
    return Answer({"topics": data}, "\n".join(lines), is_report=True)
