"""Publishing by the server that the farm has chosen, in modes `meta` and `failover`. `farm/` makes the choice."""
