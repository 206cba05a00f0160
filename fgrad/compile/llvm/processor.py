"""L5. The processor as the system describes it."""

from __future__ import annotations

_DESCRIBES = {
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
}  # fmt: skip
_PROCESSOR_BYTES = 1 << 14  # the description of the first processor


def processor() -> str:
    """How the system describes the first processor, without what changes from time to time."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_PROCESSOR_BYTES).decode(errors="replace").partition("\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in text.split("\n") if line.partition(":")[0].strip() in _DESCRIBES]
    return "\n".join(lines)
