"""L4. Which entries of a Jacobian can be nonzero, and columns that are computed together."""
