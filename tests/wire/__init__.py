"""Tests of gf_i2p.wire: messages, log values, HTTP upgrade and Digest."""
