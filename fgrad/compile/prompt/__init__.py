"""L5. Gradients at the prompt that compile themselves."""
