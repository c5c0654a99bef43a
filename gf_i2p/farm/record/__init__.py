"""The status record: what a server tells the farm about its router and its destinations."""
