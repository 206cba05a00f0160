"""L5. Which equations share a kernel."""
