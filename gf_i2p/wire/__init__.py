"""The wire: Raft messages, log values, the HTTP upgrade handshake and Digest. Bytes in, values out, no I/O."""
