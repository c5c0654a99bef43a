"""Every number that bounds what a peer may send, checked before memory is allocated for it.

Sizes are bytes, times seconds. A peer that goes beyond a size limit is disconnected, never cut short: a
message that was silently shortened would be a different message.
"""

from typing import Final

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

# --- Numbers ----------------------------------------------------------------------------------------------

# Terms, log indexes and offsets. The proposal calls them unsigned, but JRaft reads them as Java's long and
# SQLite stores signed 64-bit integers: the upper half cannot be held on either side.
MAX_INTEGER: Final = 2**63 - 1

# Server ids are four unsigned bytes. The highest one stands for "nobody" and is no server's.
MAX_ID: Final = 2**32 - 1

# --- Messages ---------------------------------------------------------------------------------------------

# "Log entries size" of one request. A leader needs some hundred KiB per request to saturate a disk; 16 MiB
# takes sixteen values of the largest size, and a few dozen such requests at once still fit into memory.
MAX_ENTRIES_BYTES: Final = 16 * _MIB

# Entries of one request or LogPack. An entry costs 13 bytes on the wire but over 100 in memory, so the byte
# limit alone would let a peer make us hold ten times what it sent.
MAX_ENTRIES: Final = 65_536

# One value of the replicated log. A status record with its lease sets is about 10 KiB; etcd draws the line
# for a request at 1.5 MiB.
MAX_VALUE_BYTES: Final = _MIB

# Servers of one Configuration. Every entry goes to every server and half of them must answer; beyond a dozen
# that only costs. 64 is far beyond what makes sense.
MAX_SERVERS: Final = 64

# Host name of an endpoint: what RFC 1035 (2.3.4) allows, and more than any I2P name (67) or address needs.
MAX_HOST_BYTES: Final = 253

# Endpoint text: "tcp://", a host name, ":65535".
MAX_ENDPOINT_BYTES: Final = 6 + MAX_HOST_BYTES + 6

# A Configuration: two log indexes, and of each server the id and the endpoint with its length. As a value of the log,
# and as the answer to who asks for it by HTTP.
MAX_CONFIGURATION_BYTES: Final = 8 + 8 + MAX_SERVERS * (4 + 4 + MAX_ENDPOINT_BYTES)

# A LogPack after gunzip. As much as a request: what is synchronised in one piece could be appended in one.
MAX_LOG_PACK_BYTES: Final = 16 * _MIB

# Data of one InstallSnapshot block. JRaft sends 4 KiB; a MiB hides the round trip through I2P tunnels.
MAX_SNAPSHOT_BLOCK_BYTES: Final = _MIB

# A whole snapshot, which is in memory while it is sent or received. A thousand status records are 10 MiB.
MAX_SNAPSHOT_BYTES: Final = 64 * _MIB

# --- Connections ------------------------------------------------------------------------------------------

# Head of an HTTP request or response, up to and with the blank line. Browsers send 1 KiB, proxies add some.
MAX_HTTP_HEAD_BYTES: Final = 16 * _KIB

# Header lines in that head: a browser behind two proxies sends about 25.
MAX_HTTP_HEADERS: Final = 64

# CRs before the LF that ends a header line. One belongs there, i2pd's HTTP proxy adds one (i2p-facts 6.1).
MAX_LINE_END_CRS: Final = 2

# 1xx answers that a client skips before the one it waits for; a proxy may send a 100 or a 103.
MAX_INTERIM_RESPONSES: Final = 4

# Name of a cluster or a user: it stands in paths, headers, log lines and file names.
MAX_NAME_BYTES: Final = 64

# Parameters of all challenges in one WWW-Authenticate header, or of one Authorization: Digest defines 13.
MAX_AUTH_PARAMETERS: Final = 32

# One such parameter. The longest are a nonce and an absolute URI, far below; what a server sends as nonce we
# send back, so this also bounds our own next head.
MAX_AUTH_VALUE_BYTES: Final = 1024

# Nonces of one cluster whose nonce counts are remembered, 300 bytes each. Only who knows a password makes us
# remember one. Beyond it the oldest go stale early, which costs their owners one more request.
MAX_NONCES: Final = 4096

# Nonce counts below the highest one seen that may still come: connections dialled side by side overtake each
# other. A later one is answered with stale=true.
NONCE_COUNT_WINDOW: Final = 256

# From accept() to the 101 answer, TLS included. On a LAN it takes milliseconds; who needs longer occupies a
# slot of MAX_UNAUTHENTICATED. I2P tunnels need minutes and pass their own number.
HANDSHAKE_SECONDS: Final = 10.0

# Connections that have not authenticated yet, together. Each holds a TLS state and at most one HTTP head
# (about 100 KiB), and a reconnecting farm of MAX_SERVERS with its clients fits.
MAX_UNAUTHENTICATED: Final = 128

# Requests of one connection that we have read and not answered; then we stop reading. A few hundred of one
# entry each keep a disk busy.
MAX_REQUESTS_IN_FLIGHT: Final = 1024

# Bytes of the entries in those requests, with the same effect: without it a thousand of the largest requests
# would be legal. Two of them: one is handled while the next is read.
MAX_BYTES_IN_FLIGHT: Final = 2 * MAX_ENTRIES_BYTES

# Strangers from one source; beyond it the oldest makes room. A machine that runs many clients reconnects them all at
# once after a fail-over; those that are shown out come again after a moment.
MAX_UNAUTHENTICATED_PER_SOURCE: Final = 32

# Connections of one user at a time. A server needs one or two, a busy client program some dozens; without a bound
# one client gone wrong takes all file descriptors, and with half-sent requests of the largest size all memory.
MAX_CONNECTIONS_PER_USER: Final = 64

# Bytes of requests that one user's connections have sent in part, beyond which one that sends more is closed. Some of
# the largest at once are legal; 64 connections full of them are a client gone wrong.
MAX_UNFINISHED_BYTES: Final = 4 * MAX_ENTRIES_BYTES

# Bytes that a peer has not taken, beyond which it counts as one that does not read. A peer on a slow line may be in
# the middle of the largest request there is, with others behind it.
MAX_BUFFERED_BYTES: Final = 2 * MAX_ENTRIES_BYTES
