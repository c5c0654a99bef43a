"""TLS on one non-blocking socket, as an asyncio transport.

asyncio's own TLS stacks two transports and two protocols on each other. For this protocol's short messages that is
most of the cost of a round trip, on uvloop too, and its shutdown calls protocols that have already closed. Here
OpenSSL, through `ssl.SSLObject` and two memory buffers, does the TLS; this file moves the bytes:

    recv -> incoming -> SSLObject.read -> protocol.data_received
    write -> SSLObject.write -> outgoing -> send

The life of a channel goes one way, and any state may jump to the last:

    HANDSHAKE -> OPEN -> FLUSHING (close() was called) -> LINGERING (all sent, waiting for the peer's end) -> CLOSED
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, cast

# Size of one TLS record (RFC 8446, 5.1): no single read or write of OpenSSL moves more.
RECORD_BYTES: Final = 16_384
# One recv. Large enough that a pipelined burst arrives in one piece.
SCRATCH_BYTES: Final = 256 * 1024
# Bytes sealed at once, ahead of the socket: enough to keep the socket busy, few enough to be dropped without regret.
_SEAL_BYTES: Final = 4 * RECORD_BYTES
# Bytes sent in one callback: a 16 MiB message must not hold up the other connections of this loop.
_TURN_BYTES: Final = 1024 * 1024
# After close(): time to send the rest and see the peer's end. A close() with unread input would reset the connection,
# and the peer could lose the last bytes (RFC 9112, 9.6, describes the same).
_LINGER_SECONDS: Final = 2.0
# asyncio's own default for a socket.
_HIGH_WATER: Final = 64 * 1024


class _State(IntEnum):
    HANDSHAKE = 0
    OPEN = 1
    FLUSHING = 2
    LINGERING = 3
    CLOSED = 4


# Plain names: to look up a member of an Enum costs as much as the comparison.
_HANDSHAKE, _OPEN, _FLUSHING, _LINGERING, _CLOSED = _State


class TlsChannel(asyncio.Transport):
    """One TLS connection over a connected socket, which the channel owns from now on.

    Differences to asyncio's transports: the end of the peer's stream, with or without TLS's own end, is the end of the
    connection (`connection_lost(None)`, no `eof_received`), and nothing is delivered after `close()`.
    """

    __slots__ = (
        "_backlog",
        "_failed",
        "_fd",
        "_high",
        "_incoming",
        "_linger",
        "_loop",
        "_low",
        "_opened",
        "_outgoing",
        "_protocol",
        "_reading",
        "_scratch",
        "_sealed",
        "_sock",
        "_state",
        "_tls",
        "_writer",
        "_writing_paused",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None,
        scratch: memoryview,
        opened: Callable[["TlsChannel"], asyncio.BaseProtocol],
        failed: Callable[[Exception | None], None],
    ) -> None:
        """Prepare; `start` begins.

        Args:
            loop: the event loop that runs now.
            sock: connected, non-blocking.
            context: the settings of TLS.
            server_side: whether this side accepted the connection.
            server_hostname: the name to ask for and to check; None asks for no name and checks none.
            scratch: `SCRATCH_BYTES` of memory that channels of the same loop share.
            opened: called once TLS stands, before any application byte is sent; returns the protocol. It may raise to
                refuse the peer.
            failed: called once, if TLS never stands or `opened` raises. None: this side closed the channel.
        """
        super().__init__({"peername": _name(sock.getpeername), "sockname": _name(sock.getsockname)})
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._scratch = scratch
        self._opened = opened
        self._failed = failed
        self._protocol: asyncio.Protocol | None = None
        self._state: _State = _HANDSHAKE
        self._reading = False
        self._writer = False
        self._writing_paused = False
        self._sealed = b""  # TLS records that the socket has not taken
        self._backlog = bytearray()  # data that are not in records yet
        self._high = _HIGH_WATER
        self._low = _HIGH_WATER // 4
        self._linger: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin: a client speaks first, a server listens."""
        self.resume_reading()
        if not self._tls.server_side:
            self._shake()

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate, DER, once `opened` is called; None when the peer showed none."""
        return self._tls.getpeercert(binary_form=True)

    # --- In -----------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            count = self._sock.recv_into(self._scratch)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if not count:
            self._end(None if self._state else ConnectionResetError("the peer closed during the TLS handshake"))
            return
        if self._state > _OPEN:
            return  # after close() the rest is read and thrown away
        self._incoming.write(self._scratch[:count])
        if self._state or (self._shake() and self._incoming.pending):
            self._decrypt()

    def _shake(self) -> bool:
        """Go on with the handshake; return whether the connection is open now."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_records()
            return False
        except ssl.SSLError as error:
            self._send_records()  # the alert that tells the peer why
            self._end(error)
            return False
        try:
            protocol = self._opened(self)
        except Exception as error:  # noqa: BLE001 - passed on
            self._end(error)
            return False
        self._protocol = cast("asyncio.Protocol", protocol)
        self._state = _OPEN
        protocol.connection_made(self)
        # The last handshake message leaves together with the data of connection_made, or alone now.
        self._send_records()
        return self._state == _OPEN

    def _decrypt(self) -> None:
        read, incoming = self._tls.read, self._incoming
        pieces: list[bytes] = []
        ended = False
        try:
            while True:
                piece = read(RECORD_BYTES)
                if not piece:
                    ended = True
                    break
                pieces.append(piece)
                if not incoming.pending:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._end(error)
            return
        if pieces:
            protocol = self._protocol
            assert protocol is not None
            try:
                protocol.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            except BaseException:
                self.abort()
                raise
        if ended:
            self._end(None)

    def pause_reading(self) -> None:
        """Take no more bytes from the socket; bytes that have arrived may still be delivered once."""
        if self._reading and self._state == _OPEN:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        """Read the socket again."""
        if not self._reading and self._state != _CLOSED:
            self._reading = True
            self._loop.add_reader(self._fd, self._readable)

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._reading

    # --- Out ----------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send; bytes that the socket does not take at once wait. Ignored after `close()` or the connection's end."""
        if self._state != _OPEN or not data:
            return
        if self._sealed or self._backlog or len(data) > RECORD_BYTES:
            self._backlog += data
            if not self._writer:
                self._pump()
        else:
            self._tls.write(data)
            self._send_records()
        if not self._writing_paused and len(self._sealed) + len(self._backlog) > self._high:
            self._pause_writing()

    def _send_records(self) -> None:
        """Send the records that OpenSSL has made, behind the waiting ones."""
        if not self._outgoing.pending:
            return
        records = self._outgoing.read()
        if self._sealed:
            self._sealed += records
            return
        sent = self._send(records)
        if sent != len(records) and self._state != _CLOSED:
            self._sealed = records[sent:]
            self._watch_writable()

    def _send(self, records: bytes) -> int:
        try:
            return self._sock.send(records)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            # In the handshake the alert may meet a peer that has gone: any answer of the peer is read first.
            if self._state:
                self._end(error)
            return 0

    def _pump(self) -> None:
        """Send the waiting bytes, as far as the socket takes them."""
        turn = 0
        while turn < _TURN_BYTES:
            if not self._sealed:
                if not self._backlog:
                    break
                self._seal()
            records = self._sealed
            sent = self._send(records)
            if self._state == _CLOSED:
                return
            self._sealed = records[sent:]
            turn += sent
            if self._sealed:
                break
        if self._sealed or self._backlog:
            self._watch_writable()
        elif self._writer:
            self._writer = False
            self._loop.remove_writer(self._fd)
        if self._writing_paused and len(self._sealed) + len(self._backlog) <= self._low:
            self._writing_paused = False
            if self._protocol is not None and self._state == _OPEN:
                self._protocol.resume_writing()
        if self._state == _FLUSHING and not self._sealed and not self._backlog:
            self._say_goodbye()

    def _seal(self) -> None:
        sealed = 0
        with memoryview(self._backlog) as waiting:
            while sealed < len(waiting) and sealed < _SEAL_BYTES:
                sealed += self._tls.write(waiting[sealed : sealed + RECORD_BYTES])
        del self._backlog[:sealed]
        self._sealed = self._outgoing.read()

    def _watch_writable(self) -> None:
        if not self._writer:
            self._writer = True
            self._loop.add_writer(self._fd, self._pump)

    def _pause_writing(self) -> None:
        self._writing_paused = True
        if self._protocol is not None and self._state == _OPEN:
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the bytes above which the protocol is told to pause, and at or below which to resume."""
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not 0 <= low <= high:
            raise ValueError(f"the limits must satisfy 0 <= low ({low}) <= high ({high})")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return low and high, in bytes."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Bytes that the socket has not taken yet."""
        return len(self._sealed) + len(self._backlog)

    def can_write_eof(self) -> bool:
        """Half-closed connections are of no use here."""
        return False

    # --- End ----------------------------------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol; there is none before TLS stands and after the end."""
        if self._protocol is None:
            raise RuntimeError("the channel has no protocol before TLS stands and after its end")
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol."""
        self._protocol = cast("asyncio.Protocol", protocol)

    def is_closing(self) -> bool:
        """Whether `close()` or `abort()` was called or the connection has ended."""
        return self._state > _OPEN

    def close(self) -> None:
        """Send the waiting bytes, then end the connection in order; at the latest after two seconds."""
        if self._state == _HANDSHAKE:
            self._end(None)
        elif self._state == _OPEN:
            self._state = _FLUSHING
            self._linger = self._loop.call_later(_LINGER_SECONDS, self._end, None)
            self.resume_reading()
            if not self._sealed and not self._backlog:
                self._say_goodbye()

    def abort(self) -> None:
        """End the connection now; waiting bytes are lost."""
        self._end(None)

    def _say_goodbye(self) -> None:
        self._state = _LINGERING
        with contextlib.suppress(ssl.SSLError):  # OpenSSL also wants the peer's goodbye, which may never come
            self._tls.unwrap()
        try:
            self._sock.send(self._outgoing.read())
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._state == _CLOSED:
            return
        shaking = self._state == _HANDSHAKE
        self._state = _CLOSED
        if self._reading:
            self._loop.remove_reader(self._fd)
            self._reading = False
        if self._writer:
            self._loop.remove_writer(self._fd)
            self._writer = False
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._sock.close()
        self._backlog.clear()
        self._sealed = b""
        if shaking:
            self._failed(error)
        else:
            self._loop.call_soon(self._tell, error)

    def _tell(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)


def _name(ask: Callable[[], Any]) -> Any:
    # Addresses are tuples whose shape depends on the family.
    try:
        return ask()
    except OSError:
        return None  # the peer has gone already
