"""The durable log: what it keeps, what it refuses, and what survives a kill or a power cut."""
