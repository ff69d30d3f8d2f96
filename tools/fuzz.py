#!/usr/bin/env python3
"""Runs every libFuzzer target of a build for some time, with what it found before.

  fuzz.py BUILD [--seconds N]

New inputs go to BUILD/corpus/<name>, inputs that broke a target to BUILD/crashes/, and what
libFuzzer says to BUILD/fuzz-<name>.log.
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fuzz(target, name, build, seconds):
    """Runs one target; true if it held."""
    corpus, log = build / "corpus" / name, build / f"fuzz-{name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    print(f"fuzz: {name}, {seconds} s", flush=True)
    with open(log, "w") as out:
        done = subprocess.run([target, f"-max_total_time={seconds}", "-timeout=10",
                               "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0",
                               f"-artifact_prefix={build}/crashes/{name}-", corpus,
                               ROOT / "fuzz/corpus" / name], stdout=out, stderr=out)
    said = log.read_text(errors="replace")
    tried = re.search(r"number_of_executed_units: (\d+)", said)
    if done.returncode:
        print("".join(said.splitlines(keepends=True)[-40:]))
        print(f"fuzz: {name} broke. Its input is in {build}/crashes; run it again with\n"
              f"  {target} FILE\nand keep it in fuzz/corpus/{name} when it is mended.")
    elif tried:
        print(f"fuzz: {name} held, {tried[1]} inputs")
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    targets = sorted(path for path in (options.build / "fuzz").glob("fuzz_*")
                     if path.is_file() and os.access(path, os.X_OK))
    (options.build / "crashes").mkdir(exist_ok=True)
    held = [fuzz(target, target.name.removeprefix("fuzz_"), options.build, options.seconds)
            for target in targets]
    print(f"{held.count(True)} passed, {held.count(False)} failed")
    return 0 if held and all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
