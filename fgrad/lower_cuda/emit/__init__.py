"""L6. Kernel -> launches -> the text of each launch's body."""
