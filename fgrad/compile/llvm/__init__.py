"""L5. LLVM text and machine code: what every backend writes and builds with."""
