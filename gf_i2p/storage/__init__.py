"""Durable state of one farm: log, term, vote and snapshot in SQLite; the history in text files."""
