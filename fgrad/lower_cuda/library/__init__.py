"""L6. Library steps on the device: NVIDIA's libraries, and kernels of our own."""
