"""L5. What kernels and calls are, planned: steps, the routines among them, and their memory."""
