"""The status record: a server's report to the farm about its router and its destinations."""
