"""All limits on a peer's input, checked before memory is allocated for the input.

Sizes are bytes, times seconds. A peer that exceeds a size limit is disconnected, and its message is never shortened: a
silently shortened message would be a different message. A leader whose entries exceed a limit stays connected: the
header of its request counts as a sign of life, and the entries are read past (`OversizedRequest`).
"""

from typing import Final

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

# --- Numbers ----------------------------------------------------------------------------------------------

# Terms, log indexes and offsets. The proposal calls these numbers unsigned. But JRaft reads them as Java's long, and
# SQLite stores signed 64-bit integers: neither can hold the upper half.
MAX_INTEGER: Final = 2**63 - 1

# Server ids are four unsigned bytes. The highest id stands for "nobody" and is no server's.
MAX_ID: Final = 2**32 - 1

# --- Messages ---------------------------------------------------------------------------------------------

# "Log entries size" of one request. A leader needs some hundred KiB per request to saturate a disk; 16 MiB
# takes sixteen values of the largest size, and a few dozen such requests at once still fit into memory.
MAX_ENTRIES_BYTES: Final = 16 * _MIB

# Entries of one request or LogPack. An entry costs 13 bytes on the wire but over 100 in memory, so with the byte limit
# alone a peer could fill ten times the memory of its message. To decode or to append this many empty entries takes 1 to
# 2 ms of the event loop. Our leader sends 1,024 at most, and JRaft by default packs 1,000.
MAX_ENTRIES: Final = 2_048

# One value of the replicated log. A status record with its lease sets is about 10 KiB; etcd draws the line
# for a request at 1.5 MiB.
MAX_VALUE_BYTES: Final = _MIB

# Servers of one Configuration. Every entry goes to every server, and a majority must answer: more than a dozen servers
# only cost time. 64 is far beyond any sensible farm.
MAX_SERVERS: Final = 64

# Host name of an endpoint: the limit of RFC 1035 (2.3.4), and more than any I2P name (67) or address needs.
MAX_HOST_BYTES: Final = 253

# Endpoint text: "tcp://", a host name, ":65535".
MAX_ENDPOINT_BYTES: Final = 6 + MAX_HOST_BYTES + 6

# A Configuration: two log indexes, and for each server the id and the endpoint with its length. The same limit holds
# for a log value and for an answer by HTTP.
MAX_CONFIGURATION_BYTES: Final = 8 + 8 + MAX_SERVERS * (4 + 4 + MAX_ENDPOINT_BYTES)

# A LogPack after gunzip: as much as a request, because one request could carry the same entries.
MAX_LOG_PACK_BYTES: Final = 16 * _MIB

# Data of one InstallSnapshot block. JRaft sends 4 KiB; with a MiB, the round trip through I2P tunnels matters little.
MAX_SNAPSHOT_BLOCK_BYTES: Final = _MIB

# A whole snapshot, which is in memory while it is sent or received. A thousand status records are 10 MiB.
MAX_SNAPSHOT_BYTES: Final = 64 * _MIB

# --- Connections ------------------------------------------------------------------------------------------

# Head of an HTTP request or response, up to and with the blank line. Browsers send 1 KiB, proxies add some.
MAX_HTTP_HEAD_BYTES: Final = 16 * _KIB

# Header lines in that head: a browser behind two proxies sends about 25.
MAX_HTTP_HEADERS: Final = 64

# CRs before the LF that ends a header line. One belongs there, i2pd's HTTP proxy adds another (i2p-facts 6.1).
MAX_LINE_END_CRS: Final = 2

# 1xx answers that a client skips before the final one; a proxy may send a 100 or a 103.
MAX_INTERIM_RESPONSES: Final = 4

# Challenges of the peer (401) in one attempt to reach the peer: a second challenge means wrong credentials.
MAX_PEER_CHALLENGES: Final = 1

# Challenges of a proxy on the way (407) in one attempt: one for an expired nonce, and two because other connections
# that log in at the same time may overtake this one. A proxy that asks more often would ask for ever.
MAX_PROXY_CHALLENGES: Final = 3

# Name of a cluster or a user, which is used in paths, headers, log lines and file names.
MAX_NAME_BYTES: Final = 64

# User name of a newcomer, which carries the newcomer's ticket (`farm/admission`) in base64url. The longest has 595.
MAX_NEWCOMER_BYTES: Final = 640

# Parameters of all challenges in one WWW-Authenticate header, or of one Authorization: Digest defines 13.
MAX_AUTH_PARAMETERS: Final = 32

# One such parameter. The longest are a nonce and an absolute URI, both far below. The client sends a server's nonce
# back, so this also bounds the client's next head.
MAX_AUTH_VALUE_BYTES: Final = 1024

# Nonces of one cluster whose nonce counts are remembered, 300 bytes each. Only a client that knows a password makes the
# server remember a nonce. Beyond the limit the oldest nonces go stale early, which costs each client one more request.
MAX_NONCES: Final = 4096

# Number of nonce counts, up to and with the highest count seen, that a server tells apart: connections dialled side by
# side overtake each other. The server answers a lower count with stale=true.
NONCE_COUNT_WINDOW: Final = 256

# From accept() to the 101 answer, TLS included. On a LAN the handshake takes milliseconds; a slower peer occupies a
# slot of MAX_UNAUTHENTICATED. I2P tunnels need minutes, so code for I2P passes a limit of its own.
HANDSHAKE_SECONDS: Final = 10.0

# Connections that have not authenticated yet, all together. Each holds a TLS state and at most one HTTP head
# (about 100 KiB), and a reconnecting farm of MAX_SERVERS with its clients fits.
MAX_UNAUTHENTICATED: Final = 128

# Requests of one connection that the server has read and not answered; then the server stops reading. A few hundred
# requests of one entry each keep a disk busy.
MAX_REQUESTS_IN_FLIGHT: Final = 1024

# Bytes of the entries in those requests, with the same effect: without this limit a thousand of the largest requests
# would be legal. Room for two of the largest: one is handled while the next is read.
MAX_BYTES_IN_FLIGHT: Final = 2 * MAX_ENTRIES_BYTES

# Connections from one source that have not authenticated yet; beyond the limit a new one replaces the oldest. A machine
# with many clients reconnects all of them at once after a fail-over; replaced clients dial again after a moment.
MAX_UNAUTHENTICATED_PER_SOURCE: Final = 32

# Connections of one user at a time. A server needs one or two, a busy client program some dozens. Without a bound,
# one faulty client takes all file descriptors, and with half-sent requests of the largest size all memory.
MAX_CONNECTIONS_PER_USER: Final = 64

# Bytes of partly sent requests on one user's connections; beyond the limit, a connection that sends more is closed.
# A user may send a few of the largest requests at once; only a faulty client fills 64 connections with them.
MAX_UNFINISHED_BYTES: Final = 4 * MAX_ENTRIES_BYTES

# Bytes that wait for a peer to read; beyond this limit the peer counts as stuck. A peer on a slow line may be in the
# middle of the largest request, with other requests behind that one.
MAX_BUFFERED_BYTES: Final = 2 * MAX_ENTRIES_BYTES

# Bytes per second that one connection may send as the entries of requests over a limit. The server reads past these
# entries, because a leader of JRaft has no limits (docs/design/jraft.md). Faster than any line of a farm.
MAX_SKIPPED_BYTES_PER_SECOND: Final = 16 * _MIB
