"""The durable log: kept data, refusals, and survival of a kill or a power cut."""
