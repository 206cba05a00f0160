"""L4. Sparsity patterns of Jacobians, and colourings of their columns."""
