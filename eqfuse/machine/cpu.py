"""What this CPU can do, as the system tells it: code for one CPU must not run on another."""

from __future__ import annotations

import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

# Lines of /proc/cpuinfo that say which instructions there are, and for which CPU a compiler tunes: x86, Arm, others.
_TOLD = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags", "cache size",
    "Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part",
    "cpu", "isa", "uarch", "machine", "features",
)  # fmt: skip


@cache
def cpu_features() -> str:
    """A text that is the same on equal CPUs alone."""
    told = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = {line for line in info.read_text().splitlines() if line.partition(":")[0].strip() in _TOLD}
        told += sorted(lines)  # of all cores, which may differ
    elif sys.platform == "darwin":
        names = ["machdep.cpu", "hw.optional", "hw.cputype", "hw.cpusubtype", "hw.cpufamily"]
        told.append(subprocess.run(["/usr/sbin/sysctl", *names], capture_output=True, text=True, check=False).stdout)
    return "\n".join(told)
