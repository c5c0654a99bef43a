"""Hashes from the command line or from a file."""

import pytest

from gf_i2p.netdb.encoding import to_b32_address, to_base64
from gf_i2p.netdb.errors import StructureError
from gf_i2p.pipeline.errors import PipelineError
from gf_i2p.pipeline.floodfills.given_hashes import SoughtLeaseSet, parse_target, parse_targets

HASH = bytes(range(32))


@pytest.mark.parametrize("text", [to_base64(HASH), to_base64(HASH).rstrip("="), to_b32_address(HASH)])
def test_in_both_forms_with_a_name_or_without(text: str) -> None:
    assert parse_target(text) == SoughtLeaseSet(HASH, text)
    assert parse_target(f" {text}  my farm\n") == SoughtLeaseSet(HASH, "my farm")
    assert not parse_target(text).is_named
    assert parse_target(f"{text} my farm").is_named
    assert parse_target(f"{text} {to_base64(bytes(32))}").is_named, "of another hash"


@pytest.mark.parametrize("text", ["", "x", "AAAA", "example.i2p", to_base64(HASH + b"x"), f"{to_base64(HASH)} \x1b[2J"])
def test_nothing_else_is_one(text: str) -> None:
    with pytest.raises(StructureError):
        parse_target(text)


def test_a_file_of_them_says_which_line_is_wrong() -> None:
    good = to_base64(HASH)
    assert parse_targets(["# ours\n", "\n", f"{good}\n", f"{good} b\n"]) == [
        SoughtLeaseSet(HASH, good),
        SoughtLeaseSet(HASH, "b"),
    ]
    with pytest.raises(PipelineError, match="line 2: "):
        parse_targets([good, "nonsense"])
    with pytest.raises(PipelineError, match="line 1 has more than"):
        parse_targets(["x" * 5000])
