"""The disk cache as seen by somebody who wants code of theirs to be run: all is refused by a card.

Each case plants something in a cache that works, in a way that its row describes.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrad.compile.llvm import own_files
from fgrad.compile.llvm.store import DiskStore
from fgrad.errors import CacheWarning

KEY, OTHER = "k_00ab", "k_11ab"  # in one inner folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are of POSIX")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)


def _file(cache: DiskStore) -> Path:
    return Path(cache.path(KEY))


def _give_away(path: Path) -> None:
    os.chown(path, 12345, -1)


def _replace_by_link(path: Path) -> None:
    moved = path.rename(path.with_name("moved"))
    path.symlink_to(moved)


def _replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


PLANTED: dict[str, tuple[Callable[[DiskStore], None], str]] = {
    "the folder can be written by its group": (lambda c: os.chmod(c.directory, 0o770), "written"),
    "the folder can be written by all": (lambda c: os.chmod(c.directory, 0o707), "written"),
    "an inner folder can be written": (lambda c: _file(c).parent.chmod(0o720), "written"),
    "a file can be written by its group": (lambda c: _file(c).chmod(0o620), "written"),
    "a file can be written by all": (lambda c: _file(c).chmod(0o602), "written"),
    "a file is a link": (lambda c: _replace_by_link(_file(c)), "is a link"),
    "an inner folder is a link": (lambda c: _replace_by_link(_file(c).parent), "is no folder"),
    "a file is a pipe that nobody writes": (lambda c: _replace_by_pipe(_file(c)), "is no file"),
    "a file is a folder": (lambda c: _replace_by_folder(_file(c)), "is no file"),
    "an inner folder is a pipe": (
        lambda c: (shutil.rmtree(_file(c).parent), os.mkfifo(_file(c).parent))[1],
        "is no folder",
    ),
}
GIVEN_AWAY: dict[str, Callable[[DiskStore], None]] = {
    "the folder is another user's": lambda c: _give_away(Path(c.directory)),
    "an inner folder is another user's": lambda c: _give_away(_file(c).parent),
    "a file is another user's": lambda c: _give_away(_file(c)),
}


def _filled(tmp_path: Path) -> DiskStore:
    cache = DiskStore(str(tmp_path / "cache"))
    cache.put(KEY, b"good")
    assert cache.get(KEY) == b"good"
    return DiskStore(cache.directory)


def _is_refused(cache: DiskStore, why: str) -> None:
    """One card, which says why and to delete the folder; and no further use of it."""
    with pytest.warns(CacheWarning, match=why) as caught:
        assert cache.get(KEY) is None
    assert len(caught) == 1
    text = str(caught[0].message)
    assert f"rm -r {cache.directory}" in text and "chmod" not in text
    before = sorted(Path(cache.directory).rglob("*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(OTHER, b"more")
        assert cache.get(KEY) is None and cache.get(OTHER) is None
    assert sorted(Path(cache.directory).rglob("*")) == before


@pytest.mark.parametrize("case", PLANTED)
def test_what_others_could_have_written_is_refused(tmp_path: Path, case: str) -> None:
    cache = _filled(tmp_path)
    plant, why = PLANTED[case]
    plant(cache)
    _is_refused(cache, why)


@as_root
@pytest.mark.parametrize("case", GIVEN_AWAY)
def test_what_belongs_to_another_user_is_refused(tmp_path: Path, case: str) -> None:
    cache = _filled(tmp_path)
    GIVEN_AWAY[case](cache)
    _is_refused(cache, "another user")


def test_a_folder_that_is_refused_is_not_written(tmp_path: Path) -> None:
    cache = DiskStore(str(tmp_path / "cache"))
    os.mkdir(cache.directory)
    os.chmod(cache.directory, 0o777)
    with pytest.warns(CacheWarning, match="written"):
        cache.put(KEY, b"good")
    assert not os.listdir(cache.directory)


def test_exchanged_files_are_not_taken_for_each_other(tmp_path: Path) -> None:
    cache = _filled(tmp_path)
    cache.put(OTHER, b"valid too, under its own name")
    one, other = Path(cache.path(KEY)), Path(cache.path(OTHER))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert cache.get(KEY) is None and cache.get(OTHER) is None
    cache.put(KEY, b"good")
    assert cache.get(KEY) == b"good"


@pytest.mark.parametrize("level", ["the folder", "an inner folder"])
def test_a_folder_exchanged_after_it_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """What is read is what was looked at: another folder of that name is not seen any more."""
    cache = _filled(tmp_path)
    planted = tmp_path / "planted"
    shutil.copytree(cache.directory, planted)
    (planted / "b" / KEY).write_bytes((planted / "b" / KEY).read_bytes()[:-4] + b"evil")
    looked = own_files._refuse_foreign
    exchanged = []

    def look_and_exchange(path: str, state: os.stat_result, is_kind: object, kind: str) -> None:
        looked(path, state, is_kind, kind)  # type: ignore[arg-type]
        wanted = cache.directory if level == "the folder" else os.path.join(cache.directory, "b")
        if path == wanted and not exchanged:
            exchanged.append(path)
            os.rename(path, tmp_path / "away")
            os.rename(planted if level == "the folder" else planted / "b", path)

    monkeypatch.setattr(own_files, "_refuse_foreign", look_and_exchange)
    assert cache.get(KEY) == b"good"
    assert exchanged


def test_files_that_are_no_entries_stay(tmp_path: Path) -> None:
    """A cache in a folder with other files deletes none of them, and follows no link to delete."""
    home = tmp_path / "home"
    (home / "b").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    (home / "thesis.tex").write_bytes(bytes(5000))
    (home / "b" / "notes.txt").write_bytes(bytes(5000))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "k_00cd").write_bytes(bytes(5000))
    (home / "d").symlink_to(tmp_path / "elsewhere")
    kept = [home / "thesis.tex", home / "b" / "notes.txt", tmp_path / "elsewhere" / "k_00cd"]
    for path in kept:
        os.utime(path, (0, 0))
    cache = DiskStore(str(home), size_limit=2000)
    for k in range(8):
        cache.put(f"k_{k}0ab", bytes(1000))
        cache.trim()
    assert all([path.stat().st_size == 5000 for path in kept])
    assert len(list(home.glob("b/k_*"))) <= 2


def test_a_folder_behind_a_link_of_the_users_serves(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir(0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    cache = DiskStore(str(tmp_path / "cache"))
    cache.put(KEY, b"good")
    assert cache.get(KEY) == b"good" and (tmp_path / "disk" / "b" / KEY).exists()


def test_files_are_the_users_alone_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache = _filled(tmp_path)
    finally:
        os.umask(before)
    for path in [Path(cache.directory), *Path(cache.directory).rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077


def test_a_slow_folder_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = _filled(tmp_path)
    clock = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    with pytest.warns(CacheWarning, match="slow"):
        for _ in range(20):
            cache.get(KEY)
    monkeypatch.undo()
    assert cache.get(KEY) is None


_HALF_FULL = """
import resource, signal, sys
import numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))  # no file may be longer: the disk is full
import fgrad
for k in range(3):
    f = fgrad.jit(lambda x: np.sum(np.sin(x) * (k + 1.25)))
    for n in (4, 40, 41, 42, 43):
        for _ in range(12):
            x = np.arange(1.0 * n)
            assert np.isclose(f(x), np.sum(np.sin(x) * (k + 1.25)))
print("good")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small file system")
@pytest.mark.parametrize("kilobytes", [4, 24, 64])
def test_a_small_disk_that_fills(tmp_path: Path, kilobytes: int) -> None:
    """Code, entries of programs and what was seen of structures are kept until nothing fits; two
    processes, one after the other."""
    folder = tmp_path / "cache"
    folder.mkdir(0o700)
    mount = f"mount -t tmpfs -o size={kilobytes}k,mode=700 none {folder} || exit 77"
    shell = ["unshare", "-m", "sh", "-c", f'{mount}; "$@" && "$@"', "sh"]
    code = _HALF_FULL.replace("resource.setrlimit", "(lambda *_: None)")
    env = {**os.environ, "FGRAD_CACHE_DIR": str(folder), "FGRAD_CHECK": "1", "FGRAD_CACHE": "1"}
    try:
        done = subprocess.run(
            [*shell, sys.executable, "-c", code],
            env=env,
            capture_output=True,
            text=True,
            timeout=240,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("file systems may not be mounted")
    assert done.stdout.split() == ["good", "good"], done.stderr
    assert done.stderr.count("no room for the cache") == 2


@pytest.mark.parametrize("case", ["full disk", "read-only folder", "folder deleted", "no folder"])
def test_programs_run_without_a_cache(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "cache"
    code = _HALF_FULL
    if case != "full disk":
        code = code.replace("resource.setrlimit", "(lambda *_: None)")
    if case == "read-only folder":
        folder.mkdir(0o500)
    if case == "folder deleted":
        code = code.replace(
            "    f = fgrad", "    __import__('shutil').rmtree(sys.argv[1], True); f = fgrad"
        )
    if case == "no folder":
        folder = Path("/proc/no/such/place")
    env = {**os.environ, "FGRAD_CACHE_DIR": str(folder), "FGRAD_CHECK": "1", "FGRAD_CACHE": "1"}
    warnings = "default" if case == "full disk" else "error"
    command = [sys.executable, "-W", warnings, "-c", code, str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "good", done.stderr
    if case == "full disk":
        assert done.stderr.count("no room for the cache") == 1
        assert not [name for _, _, names in os.walk(folder) for name in names if "tmp_" in name]
