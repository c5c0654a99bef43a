"""Drives one farm's consensus core: inputs, effects and time-outs. The core itself is `gf_i2p.raft`."""
