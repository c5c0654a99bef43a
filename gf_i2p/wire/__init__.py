"""The wire: Raft messages, log values, HTTP upgrade, Digest, and all limits. Bytes in, values out; no I/O."""
