"""L5. Kernel -> scheduled Kernel: reorder, tile and vectorise loops for a CPU."""
