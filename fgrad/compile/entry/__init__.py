"""L5. The native entry of jitted functions: a repeated call runs no Python code."""
