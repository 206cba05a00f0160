"""L7. SciPy's functions with derivatives, vectorisation and compilation: `linalg`, `special`."""
