"""L5. Level B: the loop kernel, the device-independent form of one fused group."""
