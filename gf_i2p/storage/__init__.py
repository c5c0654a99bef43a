"""Durable state: the log, the term and the vote of one farm, in one SQLite file."""
