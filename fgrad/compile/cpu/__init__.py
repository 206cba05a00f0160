"""L5. The CPU backend: kernels -> LLVM text -> machine code, and the native host program."""
