"""L5. Program -> Program: what is decided before there are kernels."""
