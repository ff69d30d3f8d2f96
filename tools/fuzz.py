#!/usr/bin/env python3
"""Runs every libFuzzer target of a build for some time, with what it found before.

  fuzz.py BUILD [--seconds N]

New inputs go to BUILD/corpus/<name>, inputs that broke a target to BUILD/crashes/.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    targets = sorted(path for path in (options.build / "fuzz").glob("fuzz_*")
                     if path.is_file() and os.access(path, os.X_OK))
    crashes = options.build / "crashes"
    crashes.mkdir(exist_ok=True)
    failed = []
    for target in targets:
        name = target.name.removeprefix("fuzz_")
        corpus = options.build / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        print(f"== {name}, {options.seconds} s", flush=True)
        done = subprocess.run([target, f"-max_total_time={options.seconds}", "-timeout=10",
                               "-rss_limit_mb=2048", f"-artifact_prefix={crashes}/{name}-",
                               "-print_final_stats=1", "-verbosity=0", corpus,
                               ROOT / "fuzz/corpus" / name])
        if done.returncode:
            failed.append(name)
    for name in failed:
        print(f"fuzz: {name} broke; its input is in {crashes}. Run it again with "
              f"{options.build}/fuzz/fuzz_{name} FILE, then keep it in fuzz/corpus/{name}.")
    print(f"fuzz: {len(targets) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not targets else 0


if __name__ == "__main__":
    sys.exit(main())
