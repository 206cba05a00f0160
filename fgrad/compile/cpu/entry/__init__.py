"""L5. The native way in: a call like an earlier one runs no Python code."""
