"""Run tests on AArch64 under qemu's user mode, on an x86 machine with Debian's tools, not as root.

    python .ci/aarch64.py FOLDER [pytest's arguments]     without any: the sample of `SAMPLE`

The folder gets, once: an arm64 Python of Debian and the libraries that it needs, qemu, and wheels
of the dependencies. All of Debian's packages are unpacked there, with lists of their own: nothing
is installed on this machine.

qemu before 8.1 does not see code that is written by way of another mapping, which is how fgrad
loads it: it would run what was there before. So qemu and Python come from a release that has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = "trixie"  # of Debian: the first with qemu 8.1 or later
TAGS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64",
        "manylinux2014_aarch64")  # fmt: skip
TOOLS = ("pytest", "hypothesis", "mpmath", "ml_dtypes", "nbmake", "attrs", "cloudpickle", "joblib")
PROCESSOR = "neoverse-n1"
# What differs on this processor: the loader, conventions, vectors, float16, threads, the cache.
SAMPLE = (
    "tests/compile/test_loader.py",
    "tests/compile/test_kernel_runtime.py",
    "tests/compile/test_fork.py",
    "tests/faults/test_interrupts.py",
    "tests/numpy/test_op_cases.py",
)
# Its process has 300 seconds, which are too few for qemu.
SLOW = "tests/compile/test_loader.py::test_a_child_keeps_the_code_that_its_parent_frees"


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """The output of a command.

    Raises:
        SystemExit: it fails; what it said is printed.
    """
    done = subprocess.run(
        [str(c) for c in command], env={**os.environ, **(env or {})}, cwd=cwd,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return done.stdout


def apt(folder: Path, architecture: str) -> dict[str, str]:
    """The environment of apt with lists of its own, of `RELEASE` from this machine's archive."""
    lists = run("apt-get", "indextargets", "--format", "$(SITE)").split()
    site = next(s for s in lists if s.rstrip("/").endswith("/debian"))
    state = folder / f"apt-{architecture}"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "state/status").touch()
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    source = state / "sources.list"
    source.write_text(f"deb [signed-by={key}] {site} {RELEASE} main\n")
    settings = state / "apt.conf"
    settings.write_text(
        f'APT::Architecture "{architecture}";\nAPT::Architectures {{ "{architecture}"; }};\n'
        f'Dir::State "{state}/state";\nDir::State::status "{state}/state/status";\n'
        f'Dir::Cache "{state}/cache";\nDir::Etc::sourcelist "{source}";\n'
        'Dir::Etc::sourceparts "-";\nAPT::Install-Recommends "false";\n'
        'APT::Sandbox::User "";\n'
    )
    env = {"APT_CONFIG": str(settings)}
    run("apt-get", "update", env=env)
    return env


def unpack(packages: Path, into: Path) -> None:
    """Unpack all packages in a folder."""
    into.mkdir(parents=True, exist_ok=True)
    for package in sorted(packages.glob("*.deb")):
        run("dpkg", "-x", package, into)


def set_up(folder: Path) -> Path:
    """The arm64 Python of the folder, which is made if it is not there."""
    python = folder / "root/usr/bin/python"
    if python.exists():
        return python
    env = apt(folder, "amd64")
    (folder / "qemu-packages").mkdir(exist_ok=True)
    run("apt-get", "download", "qemu-user", env=env, cwd=folder / "qemu-packages")
    unpack(folder / "qemu-packages", folder / "qemu")
    env = apt(folder, "arm64")
    needs = ("python3", "libstdc++6", "libgomp1", "libatomic1")
    run("apt-get", "-y", "--download-only", "install", *needs, env=env)
    root = folder / "root"
    unpack(folder / "apt-arm64/cache/archives", root)
    if not (root / "lib").exists():  # a link that a package's script would make
        (root / "lib").symlink_to("usr/lib")
    (interpreter,) = [p for p in (root / "usr/bin").glob("python3.*") if p.name[8:].isdigit()]
    wheels(interpreter.name.removeprefix("python"), root / "usr/lib/python3/dist-packages")
    write_python(folder, python, interpreter)
    return python


def wheels(version: str, into: Path) -> None:
    """Put wheels of the dependencies for AArch64 into a folder."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needs = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)[0]
    packages = [*re.findall(r'"(.+)"', needs), *TOOLS]
    platforms = [word for tag in TAGS for word in ("--platform", tag)]
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", into, *platforms,
        "--python-version", version, "--only-binary", ":all:", *packages)  # fmt: skip


def write_python(folder: Path, python: Path, interpreter: Path) -> None:
    """A script that runs the interpreter under qemu; Python takes it for its own executable, so
    that processes that a test starts run under qemu too."""
    qemu = folder / "qemu/usr/bin/qemu-aarch64"
    python.write_text(
        f"#!/bin/sh\nexec {qemu} -cpu {PROCESSOR} -L {folder / 'root'} -0 {python} "
        f'{interpreter} "$@"\n'
    )
    python.chmod(0o755)


def main() -> None:
    """Set up, and run pytest."""
    folder = Path(sys.argv[1]).resolve()
    if shutil.which("dpkg") is None or shutil.which("apt-get") is None:
        raise SystemExit("this needs the tools of Debian: apt-get and dpkg")
    python = set_up(folder)
    print(run(python, "-c", "import platform, sys; print(platform.machine(), sys.version)").strip())
    tests = sys.argv[2:] or [*SAMPLE, f"--deselect={SLOW}"]
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "-o", "filterwarnings=",
               *tests]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FGRAD_CHECK": "1"}
    raise SystemExit(subprocess.run(command, cwd=ROOT, env=env).returncode)


if __name__ == "__main__":
    main()
