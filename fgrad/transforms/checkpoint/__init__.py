"""L4. Recompute residuals instead of saving them, as the user or a memory budget chooses."""
