"""L5. Steps of a program: kernels, routines, and the plan of their memory."""
