"""The running node: connects the consensus core with disk, connections, router and clock."""
