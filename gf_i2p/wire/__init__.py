"""The wire: Raft messages, log values, HTTP upgrade, Digest, all limits. Bytes in, values out; no I/O."""
