"""L2. The parts of tracing, of which `fgrad.trace` is the whole."""
