"""Measures Tandem beside llama.cpp: `make bench`, or `python -m bench` in the project's root.

Both run on the same files with the same threads, in turns (ours, peer, ours, peer, ...). Results go
to build/bench/results.json, in which each run replaces the figures that it measures; a table of the
measured figures comes at the end. docs/performance.md explains them.

  python -m bench --only 'prefill-*,decode-*'     some of the figures, by name
  python -m bench --only 'default/*' --pairs 9
  python -m bench --isa avx2                      both without the higher instruction sets
  python -m bench --quick --no-peer               a few seconds: does everything work?
  python -m bench --markdown docs/performance.md  only writes the tables of that page anew
"""
import argparse
import signal
import sys
from pathlib import Path

from . import cases, report
from .measure import Bench
from .problem import Problem
from .results import Results

ROOT = Path(__file__).resolve().parent.parent


def parse(arguments):
    parser = argparse.ArgumentParser(prog="bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=None,
                        help="times that each figure is measured on both sides (default 5)")
    parser.add_argument("--only", default="", metavar="NAMES",
                        help="figures to measure, with * and ?, by comma; `--list` shows them")
    parser.add_argument("--list", action="store_true", help="name the figures and stop")
    parser.add_argument("--precision", default="high,fast", metavar="NAMES",
                        help="precisions of ours, by comma (default high,fast)")
    parser.add_argument("--threads", type=int, default=0, help="of both (default: all cores)")
    parser.add_argument("--isa", default="", choices=["", "avx2", "avx512"],
                        help="what ours and the peer may use at most (default: all there is)")
    parser.add_argument("--quick", action="store_true",
                        help="small figures that prove the path, one pair each")
    parser.add_argument("--no-peer", action="store_true", help="measure only ours")
    parser.add_argument("--append", action="store_true",
                        help="add to the samples of earlier runs; do not replace them")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="ours (default build)")
    parser.add_argument("--out", type=Path, default=None,
                        help="results file (default build/bench/results.json)")
    parser.add_argument("--markdown", type=Path, metavar="PAGE",
                        help="write the tables of the results file into this page, measure nothing")
    options = parser.parse_args(arguments)
    options.pairs = options.pairs or (1 if options.quick else 5)
    options.out = options.out or options.build / "bench" / (
        "quick.json" if options.quick else "results.json")
    return options


def main(arguments):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out
    options = parse(arguments)
    all_cases = cases.QUICK_CASES if options.quick else cases.ALL_CASES
    wanted = cases.chosen(all_cases, [name for name in options.only.split(",") if name])
    try:
        if options.list:
            print("\n".join(case.key for case in wanted))
            return 0
        results = Results(options.out, options.append)
        if options.markdown:
            report.rewrite(options.markdown, results.data)
            return 0
        if not wanted:
            raise Problem(f"--only {options.only} names no figure; --list shows them all")
        ids = Bench(options, results).run(wanted)
        print(report.table(results.data, ids))
        print(f"bench: written to {options.out}", file=sys.stderr)
    except Problem as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
