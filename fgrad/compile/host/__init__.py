"""L5. The host program: native calls in order over a table of addresses, for every device."""
