"""Drives the consensus core of one farm: inputs, effects and time-outs. The core is `gf_i2p.raft`."""
