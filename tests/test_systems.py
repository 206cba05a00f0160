"""Other systems: what Linux alone has is asked for under a guard; a process without it computes.

`faults/systems.py` takes away what macOS and Windows lack.  What they have instead is compiled and
inspected in `compile/test_formats.py`; docs/design/platforms.md lists what is unproven.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from sources import python_files, relative, syntax_tree

from fgrad.base.system import cache_folder

# Names of the standard library that some system lacks (macOS or Windows).
OF_SOME_SYSTEMS = {
    "os": """fork forkpty register_at_fork memfd_create MFD_ sched_ getuid geteuid getgid getegid
        kill killpg wait mkfifo pipe2 eventfd splice sendfile posix_ setsid uname nice getloadavg
        statvfs chown chroot getpgid setpgid getpriority O_CLOEXEC O_NOFOLLOW O_NONBLOCK
        O_DIRECTORY openpty""",
    "signal": """SIGALRM SIGUSR SIGHUP SIGKILL SIGCHLD SIGPIPE SIGBUS alarm setitimer pthread_
        sigwait pause""",
    "time": "clock_gettime CLOCK_ tzset",
    "mmap": "PROT_ MAP_",
    "select": "poll epoll",
}
MODULES = {"resource", "fcntl", "pwd", "grp", "termios", "posix", "tty", "pty", "syslog"}
FOLDERS = ("/proc/", "/sys/", "/dev/")
# A test that asks which system this is, or what it has.
ASKS = re.compile(r"POSIX|hasattr|getattr|sys\.platform|os\.name|platform\.machine|refused")
# Functions that only such a test leads to: where it is.
LED_TO = {
    ("fgrad/compile/llvm/code_memory.py", "_mapped_twice"): "hasattr(os, 'memfd_create')",
    ("fgrad/compile/llvm/code_memory.py", "_mapped"): "hasattr(os, 'memfd_create')",
    ("fgrad/compile/llvm/own_files.py", "_refuse_foreign"): "if not _POSIX",
}


def is_of_some_systems(node: ast.AST) -> bool:
    """Whether an expression or import is of what not every system has."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr.startswith(tuple(OF_SOME_SYSTEMS.get(node.value.id, "\0").split()))
    if isinstance(node, ast.Import):
        return any(alias.name in MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module in MODULES
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.startswith(FOLDERS) and " " not in node.value
    is_library = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CDLL")
    return is_library and any(isinstance(a, ast.Constant) and a.value is None for a in node.args)


def is_guarded(path: list[ast.AST]) -> bool:
    """Whether something around an expression, or before it in a function, asks for the system."""
    for outer, inner in pairwise(path):
        if isinstance(outer, ast.Try) and inner in outer.body and outer.handlers:
            return True
        if isinstance(outer, ast.With) and "suppress" in ast.unparse(outer.items[0]):
            return True
        if isinstance(outer, (ast.If, ast.IfExp, ast.BoolOp)) and ASKS.search(ast.unparse(outer)):
            return True
        if isinstance(outer, ast.FunctionDef):
            before = [s for s in outer.body if s.lineno < inner.lineno and isinstance(s, ast.If)]
            leaves = [s for s in before if isinstance(s.body[-1], (ast.Return, ast.Raise))]
            if any(ASKS.search(ast.unparse(s.test)) for s in leaves):
                return True
    return False


def uses(tree: ast.AST) -> Iterator[tuple[list[ast.AST], ast.AST]]:
    """What not every system has, each with the nodes around it."""
    waiting: list[list[ast.AST]] = [[tree]]
    while waiting:
        path = waiting.pop()
        if is_of_some_systems(path[-1]):
            yield path, path[-1]
        waiting += [[*path, child] for child in ast.iter_child_nodes(path[-1])]


def unguarded(path: Path) -> list[str]:
    """The uses in a file that nothing guards."""
    found = []
    for around, node in uses(syntax_tree(path)):
        names = [n.name for n in around if isinstance(n, ast.FunctionDef)]
        led = any((relative(path), name) in LED_TO for name in names)
        if not led and not is_guarded(around):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", python_files("fgrad"), ids=relative)
def test_what_some_systems_lack_is_asked_for_under_a_guard(path: Path) -> None:
    assert not unguarded(path)


@pytest.mark.parametrize(("file", "_name"), LED_TO)
def test_guards_that_lead_to_functions_are_there(file: str, _name: str) -> None:
    text = (Path(__file__).parent.parent / file).read_text(encoding="utf-8").replace('"', "'")
    assert LED_TO[file, _name] in text


@pytest.mark.parametrize(
    "text",
    [
        "import resource",
        "def f():\n    return os.fork()",
        "open('/proc/cpuinfo')",
        "x = ctypes.CDLL(None)",
        "def f():\n    if x:\n        return 1\n    return os.memfd_create('a')",
        "def f():\n    signal.setitimer(0, 1)\n    if POSIX:\n        return",
    ],
)
def test_the_audit_finds_what_is_unguarded(text: str) -> None:
    found = list(uses(ast.parse(text)))
    assert found
    assert not any(is_guarded(around) for around, _ in found)


@pytest.mark.parametrize(
    ("system", "variables", "folder"),
    [
        ("linux", {}, "/home/me/.cache"),
        ("linux", {"XDG_CACHE_HOME": "/fast"}, "/fast"),
        ("darwin", {}, "/home/me/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/data"}, "/data"),
    ],
)
def test_the_cache_is_in_the_systems_folder(
    system: str, variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system)
    assert cache_folder() == folder


@pytest.mark.parametrize("system", ["darwin", "windows"])
def test_a_process_without_what_a_system_lacks_computes(system: str, tmp_path: Path) -> None:
    program = Path(__file__).parent / "faults" / "systems.py"
    environment = {
        **os.environ, "FGRAD_CACHE_DIR": str(tmp_path), "FGRAD_NUM_THREADS": "4",
    }  # fmt: skip
    command = [sys.executable, str(program), system]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["good", "True"], done.stderr
