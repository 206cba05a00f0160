"""L7. Command-line tools: `python -m fgrad.tools.op NAME` and `python -m fgrad.tools.run FILE`."""
