"""`python -m fgrad`: each command as a process, in good and in broken surroundings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sources import ROOT

from fgrad.base.pickling import Transformed
from fgrad.command import doctor, explain, profile
from fgrad.command.main import COMMANDS, main
from fgrad.compile.jit.jitted import Jitted
from fgrad.config import Config

MODEL = """
import sys
import numpy as np
import fgrad

def loss(w, x):
    total = 0.0
    for v in x:
        total += np.tanh(v * w)
    return total

class Model:
    @staticmethod
    def scaled(x, by=2.0):
        return x * by

step = fgrad.jit(fgrad.value_and_grad(loss))
plain = fgrad.grad(loss)

def steps(xs):
    for x in xs:
        step(0.5,x)
    return plain(0.5,xs[0])

if __name__ == "__main__":
    steps([np.ones(n) for n in (8, 8, 9, 9)])
    print("arguments", sys.argv[1:])
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))  # to which `show` adds the folder of a file
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A run of the command line."""
    done = [sys.executable, "-m", "fgrad", *arguments]
    env = {**os.environ, **settings}
    return subprocess.run(done, capture_output=True, text=True, timeout=300, env=env)


def test_info_tells_what_a_report_needs() -> None:
    done = command("info", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {
        "fgrad", "Python", "system", "packages", "processor", "threads", "BLAS", "calls", "cache",
        "GPU", "settings",
    }  # fmt: skip
    assert not [label for label, text in found.items() if text.startswith("unknown")]


def test_doctor_finds_what_was_broken_on_purpose(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command(
        "doctor",
        FGRAD_CACHE_DIR=str(tmp_path / "file"),
        FGRAD_NATIVE_CALLS="0",
        FGRAD_NUM_THREADS="4096",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPYCACHEPREFIX=str(tmp_path / "none"),
    )
    assert done.returncode == 1, done.stderr
    found = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("FIX")}
    assert found - {"compiler:"} == {"bytecode:", "cache:", "settings:", "calls:", "threads:"}
    assert done.stdout.count("\n      -> ") == len(found)


@pytest.mark.parametrize("check", doctor.CHECKS)
def test_every_check_of_the_doctor_says_what_it_looked_at(check: str) -> None:
    if check != "bytecode":  # which depends on who may write where fgrad is
        try:
            assert doctor.CHECKS[check]()
        except doctor.Found as found:
            assert found.advice


def test_doctor_reports_any_error_as_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> str:
        raise OSError("libLLVM.so: cannot open")

    monkeypatch.setattr(doctor, "CHECKS", {"compiler": broken})
    assert main(["doctor"]) == 1
    assert "FIX   compiler: OSError: libLLVM.so: cannot open" in capsys.readouterr().out


@pytest.mark.parametrize("requirement", ["numpy>=99", "no_such_package>=1"])
def test_doctor_knows_old_and_missing_packages(
    requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_requirements", lambda: [requirement])
    with pytest.raises(doctor.Found) as caught:
        doctor.CHECKS["packages"]()
    assert requirement in caught.value.advice


def test_doctor_names_all_packages_and_settings_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_requirements", lambda: ["numpy>=99", "scipy>=1", "none>=1"])
    with pytest.raises(doctor.Found, match=r"numpy .* too old, none is not installed") as caught:
        doctor.CHECKS["packages"]()
    assert caught.value.advice == 'pip install "numpy>=99" "none>=1"'
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    monkeypatch.setenv("MKL_NUM_THREADS", "4096")
    with pytest.raises(doctor.Found) as caught:
        doctor.CHECKS["threads"]()
    assert "OMP_NUM_THREADS=" in caught.value.advice and "MKL_NUM_THREADS=" in caught.value.advice


def test_doctor_without_scipy_says_so_and_not_that_its_blas_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "version_of", lambda name: "")
    with pytest.raises(doctor.Found, match="SciPy is not installed"):
        doctor.CHECKS["BLAS"]()


def test_doctor_tells_why_a_cache_cannot_be_used() -> None:
    folder = Path(os.devnull) / "cache"
    done = command("doctor", FGRAD_CACHE_DIR=str(folder))
    assert f"{folder} cannot be used: " in done.stdout, done.stdout


def test_without_numpy_a_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('no', name='numpy')")
    done = command("doctor", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert done.stderr == "fgrad needs numpy: pip install numpy\n"


@pytest.mark.parametrize("name", ["FGRAD_NUM_THREADS", "FGRAD_CHECK", "FGRAD_EAGER_COMPILE"])
@pytest.mark.parametrize("text", ["many", "1.5", "-1"])
def test_a_setting_that_is_no_whole_number_is_named(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}={text} in the environment: a whole number"):
        Config()


@pytest.mark.parametrize("name", sorted(explain.classes()))
def test_every_error_is_explained(name: str) -> None:
    for code in (name, name.lower(), f"docs/errors.md#{name.lower()}", f"fgrad.errors.{name}"):
        text = explain.explained(code)
        assert text.startswith(name) and "```" not in text
    assert name == "FgradError" or explain.section(name) in text


def test_explain_without_a_name_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == sorted(explain.classes())


def test_cache_is_measured_listed_and_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    (folder / "kept.txt").write_text("of somebody else")
    settings = {"FGRAD_CACHE_DIR": str(folder)}
    code = "import fgrad; print(fgrad.jit(lambda x: x + 1)(1.0))"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, check=True)
    listed = command("cache", "list", **settings).stdout
    assert "machine code" in listed and "checksums" in listed
    cleared = command("cache", "clear", **settings)
    assert cleared.returncode == 0 and "files deleted" in cleared.stdout
    assert "files   0\n" in command("cache", **settings).stdout
    assert (folder / "kept.txt").exists()


def test_a_cache_that_others_can_write_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    done = command("cache", "clear", FGRAD_CACHE_DIR=str(folder))
    assert done.returncode == 1
    assert "can be written by other users" in done.stderr and "Traceback" not in done.stderr


def test_show_prints_what_a_function_becomes(model: str) -> None:
    stages = [part for s in ("capture", "program", "kernels") for part in ("--stage", s)]
    done = command("show", f"{model}:loss", "--args", "0.5, np.ones(9)", "--grad", *stages)
    assert done.returncode == 0, done.stderr
    capture, program, kernels = done.stdout.removeprefix("# ").split("\n# ")
    assert capture.startswith("capture\nloss\n")
    assert "for v in x:" in capture and "rolled" in capture
    assert program.startswith("program\nprogram grad(loss)(a: f64[]~, b: f64[9]) -> (f64[]")
    assert kernels.startswith("kernels\n")
    assert "arguments" not in done.stdout  # what stands under __main__ does not run


def test_show_takes_methods_keywords_and_jitted_functions(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", f"{model}:Model.scaled", "--args", "np.ones(3), by=3.0"]) == 0
    assert main(["show", f"{model}:step", "--args", "0.5, np.ones(8)", "--stage", "cost"]) == 0
    printed = capsys.readouterr().out
    assert "program scaled(a: f64[3], b: f64[]~)" in printed and "flops" in printed


@pytest.mark.parametrize("status", [0, 3])
def test_profile_tells_lines_and_keeps_the_status_of_the_script(model: str, status: int) -> None:
    done = command("profile", model, str(status), "--flag")
    assert done.returncode == status
    assert done.stdout == f"arguments ['{status}', '--flag']\n"
    rows = [line.split() for line in done.stderr.splitlines() if "  model.py:" in line]
    counts = {row[-1]: row[:2] for row in rows if row[0].isdigit() and row[1].isdigit()}
    assert counts == {"step(0.5,x)": ["4", "2"], "plain(0.5,xs[0])": ["1", "0"]}
    assert "steps" in done.stderr and "by line" in done.stderr


def test_profile_reports_what_raised(tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text("import fgrad\nfgrad.jit(lambda x: x + 1)(1.0)\n1 / 0\n")
    done = command("profile", str(path))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and "raises.py:2 (<module>)" in done.stderr


def test_profile_counts_no_time_twice() -> None:
    clock = profile.Clock()
    call = {kind: clock._timed(lambda _, then: then(), kind) for kind in profile.COLUMNS}

    def traced() -> Any:
        return call["trace"](1, lambda: call["run"](2, lambda: time.sleep(0.01)))

    call["prompt"](0, lambda: call["run"](1, traced))
    (row,) = clock.rows.values()
    assert row.calls == 1 and row.traces == 1
    assert set(clock.running) == {id(1)}
    assert row.seconds["trace"] >= 0.01 > row.seconds["run"] + row.seconds["prompt"]


def test_profile_of_threads_and_of_calls_that_raise(tmp_path: Path) -> None:
    path = tmp_path / "threads.py"
    path.write_text("""
import threading, time
import numpy as np, fgrad
f = fgrad.jit(lambda x: np.sum(np.sin(x)))
def work():
    for _ in range(20):
        f(np.ones(5))
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
try:
    f("text")
except fgrad.errors.FgradError:
    pass
""")
    done = command("profile", str(path))
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stderr.splitlines() if "threads.py:7" in line][:1]
    assert row[0] == "60"
    assert "by line" in done.stderr and "cannot be timed" not in done.stderr


def test_calls_are_native_again_after_a_profile() -> None:
    """From Python 3.12 on, a class whose `__call__` is set loses its native calls."""
    have_vectorcall = 1 << 11

    def state() -> tuple[object, ...]:
        return Jitted.__flags__ & have_vectorcall, Jitted.__call__, Transformed.__call__

    before = state()
    with profile.Clock().watching():
        assert state()[1:] != before[1:]
    assert state() == before


WRONG = {
    "no command": ([], 2, "COMMAND"),
    "unknown command": (["infos"], 2, "infos"),
    "unknown error": (["explain", "NanErorr"], 2, "NanError"),
    "unknown action": (["cache", "drop"], 2, "drop"),
    "no colon": (["show", "model.py"], 2, "FILE:FUNCTION"),
    "no file": (["show", "missing.py:f"], 2, "missing.py"),
    "no function": (["show", "{model}:los"], 2, "similar: loss"),
    "no arguments": (["show", "{model}:loss"], 2, "--args"),
    "bad arguments": (["show", "{model}:loss", "--args", "np.ons(3)"], 2, "np.ons"),
    "bad syntax": (["show", "{model}:loss", "--args", "1,,"], 2, "SyntaxError"),
    "unknown stage": (["show", "{model}:loss", "--stage", "asm"], 2, "asm"),
    "does not fit": (["show", "{model}:Model.scaled", "--args", "'a'"], 1, "cannot be compiled"),
    "no script": (["profile", "missing.py"], 2, "missing.py"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_line_and_a_status(
    case: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, status, said = WRONG[case]
    try:
        found = main([a.format(model=model) for a in arguments])
    except SystemExit as error:  # of argparse
        found = error.code
    printed = capsys.readouterr()
    assert (found, printed.out) == (status, "") or status == 1
    assert said in printed.err


def test_a_missing_package_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise ImportError('broken on purpose')")
    settings = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "FGRAD_CACHE": "0"}
    done = command("show", "model.py:f", **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert "broken on purpose" in done.stderr and "doctor" in done.stderr
    assert "Traceback" not in done.stderr
    done = command("doctor", **settings)
    assert done.returncode == 1 and "FIX   compiler: ImportError: broken on purpose" in done.stdout


def test_a_reader_that_goes_away_is_no_error() -> None:
    line = f"{sys.executable} -m fgrad explain | true"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=300)
    assert done.stderr == ""


def test_help_tells_every_command() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert all(f"    {name} " in done.stdout for name in COMMANDS)
