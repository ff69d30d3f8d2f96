"""What machine this is, and the limits that its memory and its arithmetic set."""
import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path

# Flags of /proc/cpuinfo worth keeping beside a figure.
SHOWN_FLAGS = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni",
               "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16")


def parse_cpuinfo(text):
    """(model name, set of flags) of /proc/cpuinfo."""
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.*)$", text, re.MULTILINE)
    return (model[1].strip() if model else platform.processor(),
            set(flags[1].split()) if flags else set())


def physical_cores():
    """Cores that this process may run on, each counted once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else cpu)
    return len(cores)


def cpu_flags():
    return parse_cpuinfo(Path("/proc/cpuinfo").read_text())[1]


def describe():
    """The machine as the results keep it."""
    model, flags = parse_cpuinfo(Path("/proc/cpuinfo").read_text())
    caches = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = (folder / "level").read_text().strip(), (folder / "type").read_text().strip()
        if kind != "Instruction":
            caches[f"L{level}"] = (folder / "size").read_text().strip()
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return {"cpu": model, "cores": os.cpu_count(), "caches": caches,
            "memory_bytes": int(memory[1]) * 1024, "system": f"{platform.system()} "
            f"{platform.release()}", "flags": [flag for flag in SHOWN_FLAGS if flag in flags]}


def many_row_class(flags):
    """Which column of the targets applies: "amx" or "vnni"."""
    return "amx" if "amx_int8" in flags else "vnni"


def busy_share(seconds=0.3):
    """Share of all cores that is busy with something else, measured for a moment."""
    def ticks():
        fields = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]))
        return sum(fields[:8]), fields[3] + fields[4]
    total, idle = ticks()
    time.sleep(seconds)
    total_after, idle_after = ticks()
    passed = total_after - total
    return 1 - (idle_after - idle) / passed if passed else 0.0


LARGE_BUFFER = 1 << 30  # no cache holds it
# Fastest int8 dot product that a forced instruction set may use.
INT8 = {"avx2": ["avx2_int8"], "avx512": ["avx2_int8", "avx512_vnni_int8"]}


def limits(program, threads, sizes):
    """What machine_limits prints: GB/s over a buffer of each size, and peaks of dot products."""
    done = subprocess.run([program, str(threads), *map(str, [*sizes, LARGE_BUFFER])],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def bandwidth(limits_, size):
    """GB/s of the measured buffer whose size is nearest."""
    return min(limits_["read"], key=lambda read: abs(read["bytes"] - size))["gbps"]


def int8_peak(limits_, isa):
    """1e12 operations a second of the best int8 dot product that may be used; 0 for none."""
    allowed = INT8.get(isa, limits_["dot"])
    return max((value for name, value in limits_["dot"].items()
                if name.endswith("int8") and name in allowed), default=0)


def limit_of(row, limits_):
    """Which limit a row of results is nearer to, and the share of it that ours and the peer
    reach: {"name", "ours", "peer"}; None where the row does no known work."""
    work = row.get("work")
    if not work or not limits_ or limits_["threads"] != row["threads"]:
        return None
    seconds = {"int8 peak": 0, "read bandwidth": 0}  # that one token needs at least
    if peak := int8_peak(limits_, row.get("isa", "")):
        seconds["int8 peak"] = work["operations"] / (peak * 1e12)
    if "bytes" in work:
        seconds["read bandwidth"] = work["bytes"] / (bandwidth(limits_, work["buffer"]) * 1e9)
    name = max(seconds, key=seconds.get)

    def share(side):
        return row[side]["median"] * seconds[name] if row[side] else None

    return {"name": name, "ours": share("ours"), "peer": share("peer")}
