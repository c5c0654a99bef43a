"""A server's reports to its farm: the status record, and the checks behind the record. Publishes nothing."""
