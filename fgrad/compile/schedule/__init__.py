"""L5. Kernel -> Kernel: the same meaning in an order that is fast on a CPU."""
