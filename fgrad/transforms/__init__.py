"""L4. The transforms: differentiation, vectorisation and what is composed of them."""
