"""etcd's messages, and the log of its client in C."""

import pytest

from integration.bench.systems import etcd_messages, h2load


def test_requests_for_etcd_are_protocol_buffers() -> None:
    put = etcd_messages.put_request(b"key", b"v" * 300)
    assert put == b"\x0a\x03key\x12\xac\x02" + b"v" * 300
    assert etcd_messages.fields(put) == {1: b"key", 2: b"v" * 300}
    txn = etcd_messages.txn_request([b"a", b"b"], [b"1", b"2"])
    assert txn == b"\x12\x08\x12\x06\x0a\x01a\x12\x011" + b"\x12\x08\x12\x06\x0a\x01b\x12\x012"
    assert etcd_messages.grpc_frame(put)[:5] == b"\0\0\0\x01\x34"


def test_answers_of_etcd_tell_revision_and_leader() -> None:
    # header {cluster_id 1: 9, member_id 2: 300, revision 3: 11404}, then leader 4.
    header = b"\x08\x09\x10\xac\x02\x18\x8c\x59"
    message = b"\x0a" + bytes([len(header)]) + header
    assert etcd_messages.revision(message) == 11404
    assert etcd_messages.leads(message + b"\x20\xac\x02")
    assert not etcd_messages.leads(message + b"\x20\x07")
    assert not etcd_messages.leads(message)  # no leader is known
    for bad in (b"\x0a\x05ab", b"\x0a", b"\x08\x80", b"\x0d\0\0\0\0", b"\x08\x01"):
        with pytest.raises(ValueError, match=r"ends inside|wire type|is a number"):
            etcd_messages.revision(bad)


def test_the_c_clients_log_becomes_latencies() -> None:
    assert h2load.parse_log("1795259795651398\t200\t15239\n1795259795651491\t503\t7\n") == [0.015239]
