"""The catalogues of translations have just the messages of the code, and are compiled."""

import gettext
import io
import re
from collections import Counter
from typing import Final

import pytest
from babel.messages.catalog import Message

from gf_i2p.cli.page.sentences import Form
from gf_i2p.cli.page.words import NODE, PAGE
from tests.cli.page.catalogues import DOMAINS, TRANSLATED, compiled, forms, load, messages, path_of

_PLACES: Final = {PAGE: re.compile(r"%\(\w+\)s"), NODE: re.compile(r"\{\w+\}")}
HINT: Final = "run make messages, translate, and run make languages"


def _translations(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("language", TRANSLATED)
def test_each_message_has_its_translation(language: str, domain: str) -> None:
    wanted = {message.id for message in messages(domain) if message.id}
    found = load(language, domain)
    known = {message.id for message in found if message.id}
    assert wanted - known == set(), f"missing: {HINT}"
    assert known - wanted == set(), f"unused: {HINT}"
    for message in found:
        if message.id:
            places = Counter(_PLACES[domain].findall(message.id if isinstance(message.id, str) else message.id[-1]))
            assert not message.fuzzy, message.id
            assert len(_translations(message)) == (1 if isinstance(message.id, str) else found.num_plurals), message.id
            for translation in _translations(message):
                assert translation.strip(), f"not translated: {message.id!r}"
                assert Counter(_PLACES[domain].findall(translation)) == places, message.id


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("language", TRANSLATED)
def test_what_the_page_reads_is_made_of_the_translations(language: str, domain: str) -> None:
    with path_of(language, domain, "mo").open("rb") as file:
        read = gettext.GNUTranslations(file)
    made = gettext.GNUTranslations(io.BytesIO(compiled(load(language, domain))))
    assert vars(read)["_catalog"] == vars(made)["_catalog"], "run make languages"
    assert [read.ngettext("%(num)s farm", "%(num)s farms", number) for number in range(3)] == [
        made.ngettext("%(num)s farm", "%(num)s farms", number) for number in range(3)
    ]


def test_the_code_has_the_messages_that_one_expects() -> None:
    page = {message.id for message in messages(PAGE)}
    assert {"Skip to the content", "publishes", ("%(number)s entry behind", "%(number)s entries behind")} <= page
    node = {message.id for message in messages(NODE)}
    assert {"its router is down", "server {0} leads, in term {1}", "{by} has excluded it: {reason}"} <= node


def test_no_two_places_of_a_form_stand_side_by_side() -> None:
    for message in messages(NODE):
        if message.id:
            assert Form.of(str(message.id)).pieces


def test_a_sentence_of_the_code_becomes_a_form() -> None:
    source = '''
"""The module says much."""

def why(change, server):
    """Return a reason."""
    assert server, "never without a server"
    log.info("it is logged here")
    if change.reason == "a reason of nobody":
        raise ValueError("for programmers only")
    told = f"it was {'not ' if server else ''}seen by {server.name!r}"
    return f"a {{brace}} of {server.id}: {change.reason}" if told else "nobody " "tells it"

def other():
    return "it stands elsewhere"
'''
    found = ["it was {0}seen by {1}", "a {{brace}} of {0}: {reason}", "nobody tells it"]
    assert list(forms(source, ["why"])) == found
    assert list(forms(source)) == [*found, "it stands elsewhere"]
    with pytest.raises(AssertionError, match="there is no lost"):
        list(forms(source, ["lost"]))
