"""ZooKeeper's messages, by their layouts in zookeeper.jute."""

import pytest

from integration.bench.systems import zookeeper_messages as messages


def test_a_request_has_the_layout_of_zookeeper_jute() -> None:
    connect = messages.connect_request()
    assert connect.hex() == "0000002d" + "00" * 4 + "00" * 8 + "00007530" + "00" * 8 + "00000010" + "00" * 16 + "00"
    request = messages.request(7, messages.SET_DATA, messages.set_body(b"/a", b"xyz"))
    assert request.hex() == "00000019" + "00000007" + "00000005" + "000000022f61" + "0000000378797a" + "ffffffff"
    create = messages.create_body(b"/a")
    assert create.hex() == "000000022f61" + "00000000" + "00000001" + "0000001f" + "00000005776f726c64" + (
        "00000006616e796f6e65" + "00000000"
    )


def test_a_transaction_has_a_header_for_each_value_and_one_at_the_end() -> None:
    body = messages.multi_body([b"/a", b"/b"], [b"1", b"2"])
    begin = bytes.fromhex("0000000500ffffffff")
    end = bytes.fromhex("ffffffff01ffffffff")
    assert body == begin + messages.set_body(b"/a", b"1") + begin + messages.set_body(b"/b", b"2") + end
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        messages.multi_body([b"/a", b"/b"], [b"1"])


def test_an_answer_tells_request_transaction_and_error() -> None:
    assert messages.reply(bytes.fromhex("000000070000000100000002ffffff92") + b"rest") == (7, (1 << 32) + 2, -110)
    with pytest.raises(ValueError, match="no header"):
        messages.reply(bytes(15))


def test_a_status_tells_role_and_transaction() -> None:
    status = "Zookeeper version: 3.8.0\nConnections: 1\nZxid: 0x100000abc\nMode: leader\nNode count: 5\n"
    assert messages.leads(status)
    assert messages.applied(status) == 0x100000ABC
    for other in ("", "This ZooKeeper instance is not currently serving requests\n"):
        assert not messages.leads(other)
        assert messages.applied(other) is None
    assert not messages.leads(status.replace("leader", "follower"))
