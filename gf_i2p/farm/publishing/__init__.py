"""The publishing of one server as a state machine: lease, cadence, version, announcement, giving, stop and drain.

The machine does no I/O and reads no clock. The node drives the machine with the real log, router and clock; the
simulator drives the same machine with a simulated log, router and clock.

==================  ==========================================================================
`situation`         the input of a step: log, clocks, keys
`effects`           the output of a step: work for the driver
`lease`             whether this server may publish now
`announcement`      a set on its way through the log, and whether the router may still get it
`cadence`           when the next set is due
`set_progress`      how far a set has come: announced, attempted, sent, confirmed
`confirmation`      whether other servers have found a set in the netDb
`meta`              the machine for modes `meta` and `dry-run`: sets of leaves
`failover`          the machine for mode `failover`: the master destination itself
==================  ==========================================================================
"""
