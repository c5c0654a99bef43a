"""The job `ingest`: takes in every entry of the histories once, and writes the table `entries`."""
