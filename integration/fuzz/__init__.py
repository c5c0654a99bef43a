"""Feeds mutated bytes to each decoder of foreign bytes, guided by coverage, and judges errors, time and memory."""
