"""L1. The array program (level A): abstract values, primitives, programs, text and checker."""
