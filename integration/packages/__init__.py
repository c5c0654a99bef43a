"""What operators install: wheel, source, Debian package, and the files beside them; `make dist` and `make release`."""
