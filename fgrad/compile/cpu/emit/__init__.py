"""L5. Kernels -> LLVM functions for CPUs."""
