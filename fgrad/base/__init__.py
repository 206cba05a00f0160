"""L0. What any module may use: late imports, locks, tracebacks, lines, foreign containers."""
