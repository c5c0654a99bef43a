"""The wire: Raft messages, log values, HTTP upgrade handshake, Digest. Bytes in, values out, no I/O."""
