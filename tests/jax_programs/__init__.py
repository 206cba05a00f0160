"""Small programs as JAX's users write them, by area: `PROGRAMS` of each module.

Each is a function of the names that it uses, `J`, and gives a tree of arrays.  `names.py` has JAX's
and fgrad's names; tests/golden/jax_programs.json has the values of JAX.
"""
