"""The export of the log into the history: the node sends entries to a process that writes files."""
