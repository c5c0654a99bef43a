"""The client of a node on this machine."""

from pathlib import Path

from gf_i2p.cli.shared.errors import Exit
from tests.cli.program import gf


async def test_a_path_that_cannot_be_looked_at_is_one_sentence(tmp_path: Path) -> None:
    """A directory of another user is such a path, too, but root may look at everything."""
    place = tmp_path / ("too long" * 40)
    code, _, error = await gf("status", place)
    assert code == Exit.FAILED
    assert error == (
        f"gf-i2p: {place}: File name too long. Check the path, and that the user that runs this command owns the file "
        "and has free space.\n"
    )


async def test_a_directory_is_no_file_of_a_client(tmp_path: Path) -> None:
    assert await gf("find", tmp_path) == (
        Exit.USAGE,
        "",
        f"gf-i2p: {tmp_path} is a directory: this command takes the file of a client, an administrator or a viewer\n",
    )
