"""What `semantics/names.py` imports by a star."""


def twice(x):
    """A helper with a branch."""
    if x > 1:
        return x * 2
    return x


def countdown(n):
    """A list where the built-in gives a range."""
    return list(range(3, 0, -1))
