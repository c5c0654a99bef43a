"""The files that `gf-i2p init` writes, with their comments for the operator."""

import re
from typing import Final

GITIGNORE: Final = """\
# Written by `gf-i2p init`: these files hold keys and passwords.
/server-*/
/client-*.toml
/admin-*.toml
/viewer-*.toml
/*.master
/leaf-*.toml
*.dat
"""

GITIGNORE_OF_SERVER: Final = """\
# Written by `gf-i2p join`: the files here hold keys.
*
"""

CONFIG: Final = """\
# A Garlic Farm node, written by `gf-i2p init`. Tables marked "reloaded" are read again on SIGHUP; all others need a
# restart of the node. Paths are relative to this directory. Passwords are in secrets.toml, never here.

[node]
id = {id}                        # this server's id in the farm; a new directory, or an older copy, needs a new one
cluster = "{cluster}"               # the farm's name, the same on all servers
listen = "{listen}"  # {listen_comment}
{join}
[timing]                      # reloaded
# "lan": heartbeat 0.1 s, election 0.5 to 1 s; "i2p": 5 s, 20 to 50 s; "auto": between the two, as this node measures,
# inside I2P from 0.5 s, 3 to 6 s on. All servers of a farm should have the same profile.
profile = "{profile}"
# heartbeat = 0.1             # seconds; replaces the profile's value, as do the next two
# election_min = 0.5          # at least twice the heartbeat
# election_max = 1.0          # at least 1.2 times election_min

{tls}[logging]                     # reloaded
level = "info"                # debug, info, warning, error
format = "text"               # text or json

# Health and figures for a monitoring system, without a login: /healthz, /readyz, and /metrics for Prometheus.
# [monitoring]
# listen = "127.0.0.1:9150"   # several nodes of one process may share it; other than loopback only with:
# beyond_loopback = true      # everybody who reaches the address can read the figures

# Every committed entry with its time, as JSON Lines in history/, for analysis; see `gf-i2p history verify`.
[history]
enabled = true
rotate_mib = 64               # size in MiB at which a file is packed, and a new file begins
rotate_hours = 24             # age in hours at which the same happens
keep_days = 0                 # days after which packed files are removed; 0: never
max_mib = 16384               # size in MiB of log and history together; 0: no limit. At the limit:
when_full = "refuse"          # "refuse": clients' posts are refused; "remove": the oldest packed files are removed

# What each user may post to this server while it leads. All servers should have the same limits.
[limits]                      # reloaded
client_kib_per_second = 1024  # of a client or an administrator, on average; 0: no limit
server_kib_per_second = 8192  # of another server, on average; 0: no limit
burst_mib = 32                # what a user may save up and post at once
in_flight_mib = 32            # of posts that are not answered yet

# Exceptions for peers that are not nodes of this program.
# [compat]                    # reloaded
# digest_without_qop = true   # let users log in by the Digest of RFC 2069 (MD5), which knows no qop

{router}# The servers with which a new farm begins, this one included. Once the farm has its first leader, the log says
# which servers belong to it; this file still gives their endpoints and fingerprints. Fingerprints are reloaded.
"""

TLS: Final = """\
[tls]                         # reloaded
certificate = "certificate.pem"
key = "key.pem"               # mode 0600
# ca = "ca.pem"               # vouches for servers that have no fingerprint below

"""

ROUTER: Final = """\
# The I2P router beside this node. Its interfaces are not encrypted, so they are on this machine.
[router]
proxy = "127.0.0.1:4444"      # its HTTP proxy, by which this node reaches the others
way = "get"                   # "get": as proposal 150 says; "connect"; "socks5" (then proxy = the SOCKS proxy)
inbound = "sam"               # "sam"; or "tunnel": a plain server tunnel that you have set up, to node.listen
sam = "127.0.0.1:7656"
destination = "destination.dat"  # this server's keys inside I2P, mode 0600; a thief could be reached in its place
i2cp = "127.0.0.1:7654"       # for publishing, and for the leaf's lease set
# kind = "i2pd"               # "i2pd" or "java"; without it, the node asks the router
# i2pcontrol = "https://127.0.0.1:7650/"  # for the router's numbers; its password goes into secrets.toml
# i2pcontrol_fingerprint = "sha256:..."   # of its certificate: i2pcontrol.crt.pem in i2pd's data directory
# info_file = "/var/lib/i2pd/router.info"  # shows the router and its IP addresses to every reader of the farm's log
# proxy_user = "..."          # Java only, as the next three: a user; proxy_password goes into secrets.toml
# sam_user = "..."            # and sam_password into secrets.toml
# i2cp_user = "..."           # and i2cp_password into secrets.toml
# i2cp_fingerprint = "sha256:..."  # of I2CP's certificate, for i2cp.SSL; or i2cp_tls = "system": the system's CAs

# [router.session]            # I2CP options of the tunnels; the router's defaults if nothing is set
# "inbound.length" = "3"
# "inbound.quantity" = "5"    # fewer than 4, and i2pd may leave this node unknown for ten minutes

"""

ROUTER_OUTSIDE: Final = """\
# The I2P router beside this node, only for publishing: this server reaches the others without I2P. Its interfaces are
# not encrypted, so they are on this machine. To publish, remove the # before [router], [publish] and their settings.
[router]
i2cp = "127.0.0.1:7654"       # for publishing, and for the leaf's lease set
sam = "127.0.0.1:7656"
proxy = "127.0.0.1:4444"      # its HTTP proxy
# kind = "i2pd"               # "i2pd" or "java"; without it, the node asks the router
# i2pcontrol = "https://127.0.0.1:7650/"  # for the router's numbers; its password goes into secrets.toml
# i2pcontrol_fingerprint = "sha256:..."   # of its certificate: i2pcontrol.crt.pem in i2pd's data directory
# info_file = "/var/lib/i2pd/router.info"  # shows the router and its IP addresses to every reader of the farm's log
# sam_user = "..."            # Java only, as the next two: a user; sam_password goes into secrets.toml
# i2cp_user = "..."           # and i2cp_password into secrets.toml
# i2cp_fingerprint = "sha256:..."  # of I2CP's certificate, for i2cp.SSL; or i2cp_tls = "system": the system's CAs

"""

PUBLISH: Final = """\
# Publishing is off until you turn it on, on every server that may publish.
[publish]
mode = "off"                  # "meta": when the farm chooses this server, it publishes the Meta lease set;
                              # "dry-run": no router gets it; "failover": the master's address runs here (see below)
# publish = "auto"            # reloaded; "on": chosen before "auto"; "off": never chosen, only its leaf is listed
keys = "master.dat"           # made by `gf-i2p keys delegate` for this server, or the master's own, mode 0600
# leaf = "....b32.i2p"        # this router's own destination of the service; or the name of its tunnel, by i2pcontrol
# leaf_service = "127.0.0.1:8080"  # the service behind that leaf: while it does not answer, the leaf is not listed
# leaf_forward = "127.0.0.1:8081"  # lead the router's tunnel here: the node passes on, and counts for the leaf's cost
# master = "....b32.i2p"      # for `gf-i2p bridge serve` without the file of keys: the master that the leaf serves
# In the place of leaf, another farm's master can be the leaf: leaf_farm = "../../other-farm/server-1", the directory of
# that farm's server, which runs in the same process; or the b32 address of that master.
# sense_minutes = 60          # try each destination of the farm once in an hour, through the network; 0: never

# [[publish.leaves]]          # a further leaf of this router, with the settings as above; one such table for each
# leaf = "other....b32.i2p"
# leaf_service = "127.0.0.1:8082"
# leaf_forward = "127.0.0.1:8083"

# [publish.service]           # for mode = "failover": where the master's address leads to on this machine
# target = "127.0.0.1:8080"
# http = true                 # for HTTP: passes the client's address on, and drops headers that tell about the server
# max_streams = 512           # clients' streams at a time; the most crowded destinations give way
# max_streams_per_destination = 256
# [publish.service.session]   # I2CP options of its tunnels; with delegated keys, i2pd uses `keys delegate`'s options
# "inbound.length" = "3"

# For `gf-i2p bridge serve`: this router for programs in any language. Its password goes into secrets.toml.
# [bridge]
# listen = "127.0.0.1:7651"
# plain = true                # HTTP without TLS, on loopback only
# sign_entries = true         # signs plain entries of such programs with the keys above, and publishes them;
#                             # with mode "off" or "dry-run" only, which keep the node itself from publishing

"""


def commented(text: str) -> str:
    """Return tables as comments, still aligned, so that they take effect when the first # of a line is removed."""
    lines = []
    for line in text.splitlines():
        counts = line and not line.startswith("#")
        lines.append("# " + re.sub(r" {2}( {2,}#)", r"\1", line, count=1) if counts else line)
    return "\n".join([*lines, ""])


SERVER: Final = """\

[[servers]]
id = {id}
endpoint = "{endpoint}"
"""

FINGERPRINT: Final = """\
fingerprint = "{fingerprint}"
"""

REMOVED: Final = """\

[[removed]]                   # a new server has this server's endpoint; the id is never used again
id = {id}
"""

JOIN: Final = """\
join = true                   # this server asks to be taken into an existing farm
"""

JOINED: Final = """\
founder = false               # joined later
"""

INVITATION: Final = """\
# Lets the servers of the farm "{cluster}" know server {id}: `gf-i2p members accept DIR FILE` on each of them. The key
# is the public half: it lets nobody log in. But do not let anybody change this file on the way.

cluster = "{cluster}"

[server]
id = {id}
endpoint = "{endpoint}"
{fingerprint}
[user]
{values}"""

LEAF_INVITATION: Final = """\
# Lets the servers of the farm "{cluster}" know the leaf member {id}: `gf-i2p members accept DIR FILE` on each of
# them. The key is the public half: it lets nobody log in. But do not let anybody change this file on the way.

cluster = "{cluster}"

[member]
id = {id}

[user]
{values}"""

LEAF: Final = """\
# A leaf member of the farm "{cluster}", made by `gf-i2p members invite-leaf`. The member reports its
# leaf to the farm, and has no vote. Run the member beside its router: gf-i2p leaf run {user}
# Anybody who reads this file can post in its name. Mode 0600. Paths are relative to this file.

cluster = "{cluster}"
user = "{user}"
key = "{key}"
{ca}# i2pcontrol_password = "itoopie"  # of the router's i2pcontrol, when its URL stands below
# proxy_password = "..."      # of proxy_user below, where the router's proxy asks for a login
# sam_password = "..."        # of sam_user
# i2cp_password = "..."       # of i2cp_user

[publish]
# leaf = "....b32.i2p"        # this router's own destination of the service; or the name of its tunnel, by i2pcontrol
# leaf_service = "127.0.0.1:8080"  # the service behind that leaf: while it does not answer, the leaf is not listed
# leaf_forward = "127.0.0.1:8081"  # lead the router's tunnel here: the node passes on, and counts for the leaf's cost
status_seconds = 10.0         # between two looks at the router, 5 to 30

# [[publish.leaves]]          # a further leaf of this router, with the settings as above; up to three such tables
# leaf = "other....b32.i2p"

# The I2P router beside this member. Its interfaces are not encrypted, so they are on this machine.
[router]
proxy = "127.0.0.1:4444"      # its HTTP proxy, by which servers inside I2P are reached
way = "get"                   # "get": as proposal 150 says; "connect"; "socks5" (then proxy = the SOCKS proxy)
sam = "127.0.0.1:7656"
i2cp = "127.0.0.1:7654"       # by which the router says whether the leaf's lease set is current
# i2pcontrol = "https://127.0.0.1:7650/"  # for the router's numbers
# i2pcontrol_fingerprint = "sha256:..."   # of its certificate: i2pcontrol.crt.pem in i2pd's data directory
# proxy_user = "..."          # Java only, as the next three: a user; the passwords stand above
# sam_user = "..."
# i2cp_user = "..."
# i2cp_fingerprint = "sha256:..."  # of I2CP's certificate, for i2cp.SSL; or i2cp_tls = "system": the system's CAs

[logging]
level = "info"                # debug, info, warning, error
format = "text"               # text or json

# Servers of the farm. One live server is enough: it names the others.
"""

LEAF_CA: Final = """\
ca = "ca.pem"                 # vouches for servers that have no fingerprint below
"""

SECRETS: Final = """\
# Secrets of server {id}: anybody who reads this file can act as this server. Mode 0600.

{login}# i2pcontrol_password = "itoopie"  # of the router's i2pcontrol, when gf-i2p.toml has its URL
# proxy_password = "..."  # of proxy_user in [router] of gf-i2p.toml, where a Java router asks for a login
# sam_password = "..."  # of sam_user
# i2cp_password = "..."  # of i2cp_user
# bridge_password = "..."  # for programs that use `gf-i2p bridge serve`; at least 16 characters

# The other users: the public half of each user's key, which lets nobody log in. A foreign peer has md5 and sha256
# instead, HA1 of its password (RFC 7616), as secret as the password. Reloaded on SIGHUP; users that are removed or
# changed here are disconnected.
"""

LOGIN_KEY: Final = """\
key = "{key}"  # this server's private key
# password = "..."  # this server's password at foreign peers, which know Digest only, as user server-{id}
"""

LOGIN_DIGEST: Final = """\
password = "{password}"  # this server's password at the other servers, as user server-{id}
"""

USER: Final = """\

[users."{user}"]
{values}"""

USER_KEY: Final = """\
key = "{key}"
"""

USER_DIGEST: Final = """\
md5 = "{md5}"
sha256 = "{sha256}"
"""

CLIENT: Final = """\
# A client of the farm "{cluster}", for programs that post entries. Anybody who reads this file can post. Mode 0600.
# One live server is enough: it names the others. Try it with: gf-i2p find {user}.toml

"""

ADMIN: Final = """\
# An administrator of the farm "{cluster}", from any machine: gf-i2p members list {user}.toml
# Anybody who reads this file can add and remove servers, and post. Mode 0600. To take the right away, remove the user
# {user} from the secrets.toml of every server, and reload (SIGHUP).
# One live server is enough: it names the others.

"""

VIEWER: Final = """\
# A viewer of the farm "{cluster}", from any machine: gf-i2p status {user}.toml
# Anybody who reads this file can see the farm, and change nothing. Mode 0600. One live server is enough: it names the
# others.

"""

CREDENTIALS: Final = """\
cluster = "{cluster}"
user = "{user}"
{login}{ca}"""

CLIENT_KEY: Final = """\
key = "{key}"
"""

CLIENT_DIGEST: Final = """\
password = {password}
"""
"""`password`: as a string of TOML, for a person may have chosen the password."""

CLIENT_CA: Final = """\
# ca = "ca.pem"               # vouches for servers that have no fingerprint below, also for those that join later
"""

CLIENT_I2P: Final = """\

# The I2P router on the machine where this client runs. Traffic to it is not encrypted.
[i2p]
proxy = "127.0.0.1:4444"      # its HTTP proxy, by which the servers are reached
way = "get"                   # "get": as proposal 150 says; "connect"; "socks5" (then proxy = the SOCKS proxy)
# proxy_user = "..."          # for a Java router whose proxy asks for a login
# proxy_password = "..."
"""
