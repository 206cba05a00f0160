"""L5. `jit`: its cache entries by argument type, and inspection of compiled programs."""
