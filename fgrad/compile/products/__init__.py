"""L5. Products of matrices for passes: views of buffers, sizes, what a library takes."""
