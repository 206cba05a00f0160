"""L5. The compiler: program -> passes -> fused groups -> kernels -> native code."""
