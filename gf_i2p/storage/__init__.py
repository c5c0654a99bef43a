"""Durable state: the log, the term, the vote and the snapshot of one farm, in one SQLite file."""
