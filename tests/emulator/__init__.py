"""A GPU that is not there: kernels, driver and libraries on the CPU."""
