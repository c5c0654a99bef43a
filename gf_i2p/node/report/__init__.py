"""What a server tells its farm: its status record, and the checks behind the record. It publishes nothing."""
