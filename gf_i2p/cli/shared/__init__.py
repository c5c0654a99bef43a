"""Common parts of the commands: argument types, errors, exit codes, progress, texts, the client of a running node."""
