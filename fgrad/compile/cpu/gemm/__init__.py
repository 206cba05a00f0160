"""L5. Matrix products on the CPU."""
