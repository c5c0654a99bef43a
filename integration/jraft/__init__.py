"""Real JRaft servers, the implementation that proposal 150 documents, and gf-i2p servers as members of one farm.

JRaft has neither TLS nor the HTTP upgrade nor Digest; the messages behind these in proposal 150 are JRaft's own stream.
So gf-i2p's servers run here without TLS, HTTP and Digest: the real core, log, time-outs and driver
(`gf_i2p.node.consensus.driver`) on plain TCP, on loopback. A proxy in front of a whole node would add a handshake
between two ends of this project, which other tests cover. And a node could not use JRaft's snapshots, since a node
reads only the snapshots of nodes.

`python -m integration.jraft --help` tells the requirements.
"""
