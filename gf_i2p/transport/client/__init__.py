"""The client of a farm: finds the leader, posts values, and asks servers for the Configuration."""
