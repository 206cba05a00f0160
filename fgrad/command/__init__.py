"""L8. Command line: `python -m fgrad info | doctor | explain | cache | show | profile`."""
