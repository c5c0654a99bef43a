"""The packages that operators install, and the files beside them: `make dist` and `make release` build these."""
