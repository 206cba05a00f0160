"""L5. Program -> Program: the passes before fusion."""
