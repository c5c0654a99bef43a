"""Real JRaft servers, the implementation that proposal 150 documents, and servers of ours as members of one farm.

JRaft has neither TLS nor the HTTP upgrade nor Digest, but what follows these in proposal 150 is JRaft's own stream of
messages. So ours run here without them: the real core, log, time-outs and driver (`gf_i2p.node.consensus.driver`)
on plain TCP, on loopback. A proxy in front of a whole node would add the handshake on both of its sides, that is, ours
with ours, which other tests have; and JRaft's snapshots would be of no use to a node, since only ours write its format.

`python -m integration.jraft --help` says what is needed to run it.
"""
