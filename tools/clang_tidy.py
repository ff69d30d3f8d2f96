#!/usr/bin/env python3
"""Runs clang-tidy on the sources that changed, and remembers those that passed.

  clang_tidy.py          files of src/ that differ from the upstream branch (or the last commit)
  clang_tidy.py --all    every file of src/

A file that passed is not run again until its own text, a project header that it includes, its
compile command or .clang-tidy changes: the names of the passed states lie in build/clang-tidy.
"""
import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PASSED = BUILD / "clang-tidy"


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def changed_files():
    """Paths that differ from where this branch left upstream, or from the commit before."""
    head = output_of("git", "rev-parse", "HEAD").strip()
    base = output_of("git", "merge-base", "HEAD", "origin/HEAD").strip()
    if base in ("", head):
        base = output_of("git", "rev-parse", "--verify", "-q", "HEAD~1").strip() or head
    differing = output_of("git", "diff", "--name-only", base)
    return set((differing + output_of("git", "ls-files", "-o", "--exclude-standard")).split())


def project_headers():
    """For each object file, the project's own files it was built from, as ninja recorded them."""
    headers, current = {}, []
    for line in output_of("ninja", "-C", str(BUILD), "-t", "deps").splitlines():
        if line.startswith("    "):
            path = (BUILD / line.strip()).resolve()
            if path.is_relative_to(ROOT) and ".venv" not in path.parts:
                current.append(path)
        elif ": #deps" in line:
            current = headers.setdefault(line.split(":")[0], [])
    return headers


def state_of(command, files, text_of={}):
    """A name for everything that clang-tidy's verdict depends on."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + command.encode())
    for path in sorted(files):
        if path not in text_of:
            text_of[path] = path.read_bytes() if path.exists() else b""
        digest.update(str(path.relative_to(ROOT)).encode() + text_of[path])
    return digest.hexdigest()


def run(entry, state):
    """Runs clang-tidy on one file; its findings as text, empty if there are none."""
    command = ["clang-tidy", "-p", str(BUILD), "--quiet", f"--header-filter=^{ROOT}/src/",
               "--extra-arg=-Wno-unknown-warning-option", entry["file"]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        (PASSED / state).touch()
        return ""
    return done.stdout or done.stderr


def main():
    everything = "--all" in sys.argv[1:]
    changed, headers = changed_files(), project_headers()
    PASSED.mkdir(exist_ok=True)
    work = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = Path(entry["file"]).resolve()
        words = shlex.split(entry["command"])
        files = {path, *headers.get(words[words.index("-o") + 1], [])}
        names = {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)}
        if path.is_relative_to(ROOT / "src") and (everything or names & changed):
            state = state_of(entry["command"], files)
            if not (PASSED / state).exists():
                work.append((entry, state))
    print(f"clang-tidy: {len(work)} files to look at", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = list(filter(None, pool.map(lambda item: run(*item), work)))
    print("".join(findings), end="")
    print(f"clang-tidy: {len(findings)} files with findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
