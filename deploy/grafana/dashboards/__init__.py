"""One module for each dashboard; `DASHBOARD` is its JSON."""
