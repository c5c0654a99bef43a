"""A short run of a farm with a few leaf members."""

from pathlib import Path

from integration.runs.leaves import run


async def test_members_are_known_on_all_servers(tmp_path: Path) -> None:
    """As many leaves as a farm lists without waiting: the set changes rarely after the beginning."""
    figures = await run(tmp_path, leaves=3, servers=1, minutes=0.0)
    assert figures["wrong"] == []
    assert figures["members_known"] == [{"server": 1, "members": 3}]
    assert (figures["set_size"], figures["publishers"], figures["posts_without_answer"]) == (4, [1], 0)
