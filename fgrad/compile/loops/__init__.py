"""L5. Loops with small bodies as one kernel."""
