"""What several commands need: argument types, errors and exit codes, progress, texts, the client of a running node."""
