"""L2. What a jitted function reads from outside of its arguments, and whether it is as it was."""
