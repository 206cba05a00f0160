"""L5. The setting FGRAD_CPU -> the processor that code is made for: this one, or a level of x86-64.

A level is a set of features that the psABI of x86-64 names: code for it runs on every processor
that has them.  Code for a level that this processor lacks would end the process, so it is refused.
"""

from __future__ import annotations

from fgrad.compile.llvm.text import Target
from fgrad.config import config
from fgrad.errors import ArgumentError

NATIVE = "native"
_V2 = "+cx16 +sahf +popcnt +sse3 +ssse3 +sse4.1 +sse4.2 +crc32"
_V3 = f"{_V2} +avx +avx2 +bmi +bmi2 +f16c +fma +lzcnt +movbe +xsave"
_V4 = f"{_V3} +avx512f +avx512bw +avx512cd +avx512dq +avx512vl"
LEVELS = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}  # LLVM's names of features


def selected(host: Target) -> Target:
    """The target of this process, of which `host` describes the machine.

    Raises:
        ArgumentError: there is no such level, or the machine does not have it.
    """
    return host if config.cpu == NATIVE else level(config.cpu, host)


def level(name: str, host: Target) -> Target:
    """A level as a target for the machine `host`.

    Raises:
        ArgumentError: there is no such level, or the machine does not have it.
    """
    if name not in LEVELS:
        raise ArgumentError(
            f"FGRAD_CPU={name}: there is no such processor.",
            [("write", f"FGRAD_CPU={choice}") for choice in (NATIVE, *LEVELS)],
        )
    features = LEVELS[name].split()
    lacking = [f[1:] for f in features if f not in host.features.split(",")]
    if lacking:
        raise ArgumentError(
            f"FGRAD_CPU={name}: this processor does not have all of that level.",
            [
                ("what", f"{host.cpu} ({host.triple}) lacks {' '.join(lacking)}"),
                ("why", "an instruction that a processor lacks ends the process."),
                ("write", f"FGRAD_CPU={NATIVE}, or a lower level"),
            ],
        )
    return Target(host.triple, name, ",".join(features))
