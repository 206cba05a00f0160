"""L5. `jit` and what it keeps for each kind of arguments, and the views of what it makes."""
