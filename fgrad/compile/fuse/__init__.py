"""L5. Program -> groups of equations that share a kernel."""
