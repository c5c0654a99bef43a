"""The few protocol buffer messages of etcd that the benchmark needs, encoded by hand, without generated code.

Field numbers: etcd's rpc.proto (`etcdserverpb`), the same in 3.4 to 3.6. No I/O.
"""

from collections.abc import Sequence

PUT = "/etcdserverpb.KV/Put"
TXN = "/etcdserverpb.KV/Txn"
STATUS = "/etcdserverpb.Maintenance/Status"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def put_request(key: bytes, value: bytes) -> bytes:
    """Encode PutRequest: key 1, value 2."""
    return _field(1, key) + _field(2, value)


def txn_request(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """Encode a TxnRequest without conditions: success 2 holds one RequestOp per pair, each a request_put 2."""
    return b"".join([_field(2, _field(2, put_request(key, value))) for key, value in zip(keys, values, strict=True)])


def grpc_frame(message: bytes) -> bytes:
    """Return a message in the form of a gRPC body: a byte for "not compressed", the length, the message."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def fields(message: bytes) -> dict[int, int | bytes]:
    """Return the varint and length-delimited fields of a message; the last one of a repeated field.

    Raises ValueError when the message has other fields or ends early.
    """
    out: dict[int, int | bytes] = {}
    position = 0

    def varint() -> int:
        nonlocal position
        number = shift = 0
        while True:
            if position >= len(message):
                raise ValueError("the message ends inside a field")
            byte = message[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    while position < len(message):
        tag = varint()
        match tag & 7:
            case 0:
                out[tag >> 3] = varint()
            case 2:
                size = varint()
                out[tag >> 3] = message[position : position + size]
                position += size
                if position > len(message):
                    raise ValueError("the message ends inside a field")
            case kind:
                raise ValueError(f"field {tag >> 3} has wire type {kind}")
    return out


def _number(message: dict[int, int | bytes], field: int) -> int:
    """Return an integer field, 0 when the field is absent, as in protocol buffers."""
    value = message.get(field, 0)
    if isinstance(value, bytes):
        raise ValueError(f"field {field} is not a number")  # noqa: TRY004 - the peer's mistake, not a caller's
    return value


def _header(message: dict[int, int | bytes]) -> dict[int, int | bytes]:
    header = message.get(1, b"")
    if isinstance(header, int):
        raise ValueError("the header is a number")  # noqa: TRY004
    return fields(header)


def revision(response: bytes) -> int:
    """Return the store's revision from a PutResponse or a TxnResponse: header 1, revision 3."""
    return _number(_header(fields(response)), 3)


def leads(status_response: bytes) -> bool:
    """Return whether the answering member of a StatusResponse leads: header 1, member_id 2; leader 4."""
    message = fields(status_response)
    leader = _number(message, 4)
    return leader != 0 and leader == _number(_header(message), 2)


def applied(status_response: bytes) -> int:
    """Return the index of the last entry that the answering member has applied: raftAppliedIndex 7."""
    return _number(fields(status_response), 7)
