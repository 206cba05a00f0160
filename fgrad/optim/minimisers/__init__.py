"""L7. Minimisers and fixed points as loops of fgrad's own, which run under `jit` and `vmap`."""
