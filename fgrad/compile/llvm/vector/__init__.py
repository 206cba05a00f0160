"""L5. Elementary functions of vectors, as LLVM text."""
