"""The consensus core: one object, one `step` per input, a batch of effects out. No I/O, no clock, no randomness."""
