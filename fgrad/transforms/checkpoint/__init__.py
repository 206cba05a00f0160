"""L4. Recomputation in place of saved values, chosen by the user or by a memory budget."""
