"""L5. Groups of equations -> kernels and library steps."""
