"""The pages of the documentation, found and described."""

from pathlib import Path

import pytest

from gf_i2p.cli.shared.help_pages import KINDS, find, pages, with_topics


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of pages."""
    for kind in KINDS:
        (tmp_path / kind).mkdir()
    (tmp_path / "how-to" / "failover.md").write_text(
        "<!-- run: machine -->\n# Keep a *service* up\n\n![a picture](a.svg)\n\n"
        "The **farm** has [a mode](../reference/settings.md#publish) "
        "`failover`. More follows.\n\nSee [the API](../reference/api.md), [a file](../../README.md) and\n[a site](https://example.org/a.md).\n"
    )
    (tmp_path / "reference" / "settings.md").write_text("# Settings\n\n| a |\n|---|\n\nAll settings.\n")
    (tmp_path / "reference" / "failover.md").write_text("# Failover\n")
    (tmp_path / "reference" / "api.md").write_text("# API\n\n    code\n\nRequests.\n")
    return tmp_path


def test_topics_are_names_and_the_second_of_one_name_has_its_folder(docs: Path) -> None:
    found = pages(docs)
    assert list(found) == ["failover", "api", "reference/failover", "settings"]
    assert (found["failover"].kind, found["reference/failover"].kind) == ("how-to", "reference")


def test_the_first_sentence_has_no_marks(docs: Path) -> None:
    found = pages(docs)
    assert found["failover"].first_sentence == "The farm has a mode failover."
    assert found["settings"].first_sentence == "All settings."
    assert found["api"].first_sentence == "Requests."
    assert found["reference/failover"].first_sentence == ""


@pytest.mark.parametrize("topic", ["failover", "Failover.md", "how-to/failover", "docs/how-to/failover.md"])
def test_a_topic_is_found_by_its_name_and_its_path(docs: Path, topic: str) -> None:
    assert find(topic, pages(docs)).path == docs / "how-to" / "failover.md"


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("setings", "did you mean `gf-i2p help settings`?"),
        ("over", "did you mean `gf-i2p help failover`?"),
        ("", "`gf-i2p help` lists the topics"),
        ("zzz", "`gf-i2p help` lists the topics"),
    ],
)
def test_an_unknown_topic_names_the_nearest(docs: Path, topic: str, hint: str) -> None:
    with pytest.raises(LookupError) as caught:
        find(topic, pages(docs))
    assert str(caught.value) == f"there is no topic {topic!r}: {hint}"


def test_links_to_pages_become_commands(docs: Path) -> None:
    text = with_topics(pages(docs)["failover"], pages(docs))
    assert "has a mode (`gf-i2p help settings`) `failover`" in text
    assert "See the API (`gf-i2p help api`), a file and\n[a site](https://example.org/a.md)." in text
    assert "run: machine" not in text


def test_each_page_of_the_repository_has_a_first_sentence() -> None:
    found = pages()
    assert {"settings", "commands", "exit-codes"} <= found.keys()
    assert not [topic for topic, page in found.items() if not 10 < len(page.first_sentence) < 400]
