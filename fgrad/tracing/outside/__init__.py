"""L2. Globals and closures that a jitted function reads, and whether they have changed."""
