"""L5. Loops with small bodies -> one kernel each."""
