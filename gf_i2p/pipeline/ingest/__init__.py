"""The job `ingest`: takes every entry of the histories once, and writes the table `entries`."""
