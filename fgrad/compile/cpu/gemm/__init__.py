"""L5. The product of matrices."""
