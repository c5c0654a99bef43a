"""Publishing by the server that the farm has chosen, in modes `meta` and `failover`. The choice is `farm/`'s."""
