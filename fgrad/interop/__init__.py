"""L7. fgrad together with other compilers; each has a module that is imported by its name.

`fgrad.interop.njit` is for Numba, which is loaded with it.
"""
