"""Releases read the files of earlier releases, and servers of two releases make one farm."""
