import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.errors import RemoteProtocolError
from gf_i2p.wire.http_auth import Scheme, parse_schemes, quote


@pytest.mark.parametrize(
    ("value", "schemes"),
    [
        ("", []),
        (" , ,", []),
        ("Digest", [Scheme("digest")]),
        ("DIGEST Realm=a", [Scheme("digest", {"realm": "a"})]),
        ('Digest a="b, c=d", e = f ,,g="h\\"\\\\i"', [Scheme("digest", {"a": "b, c=d", "e": "f", "g": 'h"\\i'})]),
        ('Digest a="", b="x"', [Scheme("digest", {"a": "", "b": "x"})]),
        (
            'Negotiate, Basic realm="x", Digest nonce=1, qop="auth"',
            [Scheme("negotiate"), Scheme("basic", {"realm": "x"}), Scheme("digest", {"nonce": "1", "qop": "auth"})],
        ),
        ("NTLM TlRMTVNTUAAC==, Digest a=b", [Scheme("ntlm"), Scheme("digest", {"a": "b"})]),
        ("Digest a=", [Scheme("digest")]),
        ("Digest uri=/a/b?c=d", [Scheme("digest", {"uri": "/a/b?c=d"})]),
    ],
)
def test_the_grammar(value: str, schemes: list[Scheme]) -> None:
    assert parse_schemes(value) == schemes


@pytest.mark.parametrize(
    "value",
    ["a=b", "=", '"x"', 'Digest a="b', 'Digest a="b"c', "Digest a=b c=d", "Digest a=b\n", 'Digest a="\\"'],
)
def test_what_is_no_grammar_is_refused(value: str) -> None:
    with pytest.raises(RemoteProtocolError, match="does not follow RFC 7235"):
        parse_schemes(value)


def test_a_parameter_twice_is_refused_even_in_another_case() -> None:
    with pytest.raises(RemoteProtocolError, match="gives a parameter twice"):
        parse_schemes("Digest nc=1, NC=1")


def test_thirty_two_parts_are_read_and_one_more_is_refused() -> None:
    parameters = ", ".join(f"p{i}=x" for i in range(31))
    assert len(parse_schemes(f"Digest {parameters}")[0].parameters) == 31
    with pytest.raises(RemoteProtocolError, match="more than 32 parts"):
        parse_schemes(f"Digest {parameters}, q=x")


@pytest.mark.parametrize("form", ["{}", '"{}"'])
def test_a_value_of_1024_is_read_and_a_longer_one_is_refused(form: str) -> None:
    assert parse_schemes("Digest a=" + form.format("x" * 1024))[0].parameters["a"] == "x" * 1024
    with pytest.raises(RemoteProtocolError, match="more than 1024 bytes"):
        parse_schemes("Digest a=" + form.format("x" * 1025))


# Characters that RFC 7230 allows in a quoted string, one byte each.
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=40)


@given(st.dictionaries(st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True), TEXTS, max_size=20))
def test_quoted_strings_round_trip(parameters: dict[str, str]) -> None:
    value = "Digest " + ", ".join(f"{name}={quote(text)}" for name, text in parameters.items())
    assert parse_schemes(value) == [Scheme("digest", parameters)]


@given(st.one_of(st.text(), st.text(alphabet=' \t,="\\aD')))
def test_any_text_gives_schemes_or_the_documented_error(value: str) -> None:
    try:
        schemes = parse_schemes(value)
    except RemoteProtocolError:
        return
    assert all(scheme.name for scheme in schemes)


NASTY = ['"', '\\"', "\\", " ", "\t", ",", "=", "a", "a ", "a=", 'a="', "a =", ' ="', "a,", 'a="",', "é", 'a="\\']


@pytest.mark.parametrize("head", ["Digest ", 'Digest a="', "Digest a ", "Digest a", "Digest a="])
@pytest.mark.parametrize("unit", NASTY)
def test_the_nastiest_header_costs_linear_time(head: str, unit: str) -> None:
    value = head + unit * 100_000  # far beyond the 16 KiB that can arrive
    started = time.process_time()
    with contextlib.suppress(RemoteProtocolError):
        parse_schemes(value)
    assert time.process_time() - started < 0.5  # milliseconds; quadratic time would be many seconds
