#!/usr/bin/env python3
"""Checks which folder of src/ includes which.

A folder includes its own files, `base`, and the folders in its row below; nothing else. Prints
each include that breaks the rule and exits 1. The other rules here keep devices and heavy headers
in their rooms.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Rooms from the bottom up. A row names every room that may be included from there.
INTEGERS = "cache"  # block pool, prefix index, ledger: integers only
STORE = "cache (store)"  # kv_store and ssd_tier, which hold tensors
BELOW_ENGINE = ["backend", "nn", INTEGERS, STORE, "models", "models/load", "text", "sampling",
                "sched"]
ABOVE = [*BELOW_ENGINE, "engine", "api", "server"]
MAY_INCLUDE = {
    "base": [],
    "backend": [],
    "backend/cpu": ["backend"],
    "backend/mlx": ["backend"],
    "nn": ["backend"],
    INTEGERS: [],
    STORE: [INTEGERS, "backend"],
    "models/load": ["backend"],
    "models": ["nn", "backend", "models/load"],
    "text": ["bridge"],
    "sampling": ["backend", "sched"],
    "sched": [INTEGERS],
    "engine": BELOW_ENGINE,
    "api": ["text", "sched"],
    "server": ["text", "api", "engine"],
    "host": ["engine", "server", "backend/cpu", "backend/mlx"],
    "cli": [*ABOVE, "host", "backend/cpu", "backend/mlx"],
}
STORE_FILES = re.compile(r"cache/(kv_store|ssd_tier)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
DEVICE = re.compile(r"(?i)\w*(cuda|nvidia|cublas|nccl|avx|vnni|cpuid|metal|(?<![a-z])amx)\w*")
FORWARD_ONLY = "nlohmann/json_fwd.hpp"


def room_of(path):
    """The room of a path below src/ (or an include): its folder, the deepest one with a row."""
    if STORE_FILES.match(path):
        return STORE
    folder = path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        if folder in MAY_INCLUDE:
            return folder
    return "bridge" if path.startswith(("bridge/", "tandem_bridge.h")) else None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def without_comments(text):
    """The text with comments blanked, so that line numbers stay."""
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def check_include(path, room, angled, name):
    """What is wrong with one include, or None."""
    if name.startswith("mlx/"):
        return None if room == "backend/mlx" else "only src/backend/mlx includes MLX's headers"
    if name.startswith("nlohmann/") and path.endswith(".h") and name != FORWARD_ONLY:
        return f"a header includes only <{FORWARD_ONLY}> of nlohmann; move the rest to a .cpp"
    target = None if angled else room_of(name)
    if target is None or target in (room, "base", *MAY_INCLUDE[room]):
        return None
    allowed = ", ".join(["base", *MAY_INCLUDE[room]])
    return f"{room} must not include {target}; it may include {allowed}"


def check_file(path, text):
    """Every broken rule in one file, whose path is relative to src/, as (line, what)."""
    room = room_of(path)
    if room is None:
        return [(1, f"src/{path} is in no room; give its folder a row in tools/layering.py")]
    code = without_comments(text)
    wrong = []
    for found in INCLUDE.finditer(code):
        what = check_include(path, room, found[1] == "<", found[2])
        if what:
            wrong.append((line_of(code, found.start(1)), f'includes "{found[2]}": {what}'))
    if not room.startswith("backend"):
        wrong += [(line_of(code, found.start()), f"names a device ({found[0]}): only src/backend "
                   "knows devices; add what you need to backend/backend.h")
                  for found in DEVICE.finditer(code)]
    return wrong


def main():
    sources = ROOT / "src"
    count = failures = 0
    for file in sorted(sources.rglob("*")):
        if file.suffix in (".h", ".cpp", ".cu"):
            count += 1
            path = file.relative_to(sources).as_posix()
            for line, what in check_file(path, file.read_text()):
                print(f"src/{path}:{line}: {what}")
                failures += 1
    print(f"layering: {count} files, {failures} broken rules")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
