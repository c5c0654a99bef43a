"""Endpoints: gf_i2p/wire/endpoint.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gf_i2p.wire.endpoint import Endpoint
from gf_i2p.wire.errors import EndpointError
from gf_i2p.wire.limits import MAX_ENDPOINT_BYTES, MAX_HOST_BYTES

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])
B32 = "a" * 52 + ".b32.i2p"

GOOD = [
    ("tcp://localhost:9001", "localhost", 9001),
    ("tcp://10.0.0.1:1", "10.0.0.1", 1),
    ("tcp://[::1]:65535", "::1", 65535),
    ("tcp://[2001:db8::10.0.0.1]:80", "2001:db8::10.0.0.1", 80),
    ("tcp://a-b.c_d.example:443", "a-b.c_d.example", 443),
    ("tcp://_sip.9.example1:9", "_sip.9.example1", 9),
    (f"tcp://{B32}:80", B32, 80),
    (f"tcp://{LONGEST}:65535", LONGEST, 65535),
]
BAD = [
    "",
    "tcp://",
    "tcp://:9001",
    "tcp://host",
    "tcp://host:",
    "host:9001",
    "tcp:/host:9001",
    "TCP://host:9001",
    "ssl://host:9001",
    "tcp://host:0",
    "tcp://host:65536",
    "tcp://host:99999999999999999999",
    "tcp://host:09001",
    "tcp://host:+1",
    "tcp://host:9001/",
    "tcp://host:9001\n",
    "tcp://host:١",
    "tcp://ho st:9001",
    "tcp://user@host:9001",
    "tcp://höst:9001",
    "tcp://host.:9001",
    "tcp://.host:9001",
    "tcp://a..b:9001",
    "tcp://-a:9001",
    "tcp://a-:9001",
    "tcp://" + "a" * 64 + ":9001",
    f"tcp://{LONGEST}b:9001",
    # Texts that resolvers take for an IPv4 address and `Endpoint.parse` would take for a name.
    "tcp://1.2.3:9001",
    "tcp://2130706433:9001",
    "tcp://0x7f.1:9001",
    "tcp://0x7f000001:9001",
    "tcp://127.0.0.01:9001",
    "tcp://256.0.0.1:9001",
    "tcp://host.1:9001",
    "tcp://::1:9001",
    "tcp://[::1:9001",
    "tcp://[]:9001",
    "tcp://[host]:9001",
    "tcp://[10.0.0.1]:9001",
    "tcp://[::g]:9001",
    "tcp://[fe80::1%eth0]:9001",
    "tcp://[::1]9001",
    # Inside I2P or not? No resolver may get to answer that.
    f"tcp://{B32}.:80",
]


@pytest.mark.parametrize(("text", "host", "port"), GOOD)
def test_good_endpoints_come_back_as_they_were_written(text: str, host: str, port: int) -> None:
    endpoint = Endpoint.parse(text)
    assert (endpoint.host, endpoint.port) == (host, port)
    assert str(endpoint) == text
    assert Endpoint(host, port) == endpoint


@pytest.mark.parametrize("text", BAD)
def test_bad_endpoints_are_refused_and_the_error_says_what_was_expected(text: str) -> None:
    with pytest.raises(EndpointError, match=r"tcp://host:port|1 to 65535"):
        Endpoint.parse(text)


def test_the_error_is_a_value_error_and_quotes_no_endless_text() -> None:
    with pytest.raises(ValueError, match="not an endpoint") as caught:
        Endpoint.parse("x" * 100_000)
    assert len(str(caught.value)) < 300


def test_the_longest_endpoint_fits_its_limit_exactly() -> None:
    assert len(LONGEST) == MAX_HOST_BYTES
    assert len(str(Endpoint(LONGEST, 65535))) == MAX_ENDPOINT_BYTES


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        (B32, True),
        ("stats.i2p", True),
        ("STATS.I2P", True),
        ("i2p.example", False),
        ("stats.i2p.example", False),
        ("xi2p", False),
        ("10.0.0.1", False),
        ("::1", False),
    ],
)
def test_hosts_inside_i2p(host: str, inside: bool) -> None:
    assert Endpoint(host, 80).is_i2p is inside


@given(st.one_of(st.text(max_size=30), st.from_regex(r"tcp://[\[\]0-9a-fx.:%-]{0,20}:[0-9]{0,6}", fullmatch=True)))
def test_any_text_is_an_endpoint_or_refused(text: str) -> None:
    try:
        endpoint = Endpoint.parse(text)
    except EndpointError:
        return
    assert str(endpoint) == text
    assert Endpoint.parse(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("tcp://A.example:9001", "A.example:9001"),
        ("tcp://[2001:db8::1]:9001", "[2001:db8::1]:9001"),
        ("tcp://Farm.I2P:80", "farm.i2p:80"),
    ],
)
def test_how_an_http_request_names_it(text: str, authority: str) -> None:
    assert Endpoint.parse(text).authority == authority
