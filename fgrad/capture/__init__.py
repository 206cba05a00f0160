"""L5. Plain Python control flow in traced functions: rewritten, rolled into loops and branches."""
