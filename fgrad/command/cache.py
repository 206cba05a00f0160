"""L8. `python -m fgrad cache`: the compiled code on disk: its size, what is in it, clearing it."""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict

from fgrad.command.texts import CommandError, size_text, table
from fgrad.compile.llvm.own_files import ForeignFileError
from fgrad.compile.llvm.store import DiskStore, StoredFile
from fgrad.config import config

# What the first letter of a key says.
KINDS = {
    "k": "machine code",
    "p": "programs",
    "f": "programs of one structure",
    "t": "descriptions of the processor",
    "d": "checksums of fgrad's own files",
    "tmp": "files left half-written",
}
_DAY = 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "action", nargs="?", choices=("size", "list", "clear"), default="size",
        help="size: how large it is (default); list: what it holds; clear: delete all of it",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Do what was asked."""
    store = DiskStore(config.cache_dir)
    try:
        entries = store.entries() if os.path.isdir(config.cache_dir) else []
        if options.action == "clear":
            print(_cleared(store, entries))
        else:
            print(_listed(entries) if options.action == "list" else _size(store, entries))
    except (OSError, ForeignFileError) as error:
        raise CommandError(f"the cache cannot be used: {error}", 1) from None
    return 0


def _size(store: DiskStore, entries: list[StoredFile]) -> str:
    total = sum([entry.size for entry in entries])
    rows = [
        ("folder", config.cache_dir + ("" if config.cache else "    FGRAD_CACHE=0: not used")),
        ("files", f"{len(entries)}"),
        ("size", f"{size_text(total)} of at most {size_text(store.size_limit)}"),
    ]
    if entries:
        rows.append(("oldest", f"used {_ago(min([entry.used for entry in entries]))}"))
    return table(rows)


def _ago(used: float) -> str:
    days = (time.time() - used) / _DAY
    return f"{days:.0f} days ago" if days >= 2 else f"{24 * days:.0f} hours ago"


def _listed(entries: list[StoredFile]) -> str:
    """Sizes by kind: names of files are hashes, which say nothing."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        kinds[entry.name.partition("_")[0]].append(entry.size)
    rows = [
        (KINDS.get(kind, f"others ({kind})"), f"{len(sizes):>6} files  {size_text(sum(sizes)):>9}")
        for kind, sizes in sorted(kinds.items(), key=lambda item: -sum(item[1]))
    ]
    return table(rows) if rows else "the cache is empty"


def _cleared(store: DiskStore, entries: list[StoredFile]) -> str:
    gone = store.remove(entries)
    text = f"{len(gone)} files deleted, {size_text(sum([entry.size for entry in gone]))}"
    left = len(entries) - len(gone)
    return f"{text}; {left} could not be deleted" if left else text
