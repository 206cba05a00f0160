"""L4. Functions with rules of their users: derivatives, batching, callbacks, implicit functions."""
