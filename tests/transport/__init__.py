"""Tests of `gf_i2p.transport`, on asyncio's own loop and on uvloop."""
