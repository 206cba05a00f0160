"""L4. User-defined rules: derivatives, batching, callbacks, implicit functions, primitives."""
