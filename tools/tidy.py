#!/usr/bin/env python3
"""Checks what a formatter does not: long lines and files, leftovers, banned calls and words.

Looks at every text file that git tracks or would track. Prints each finding as file:line: what,
and exits 1 if there is one.
"""
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
COLUMNS_MAX = 100
LINES_MAX = 800

CODE = {".cpp", ".h", ".cu", ".rs", ".py", ".cmake", ".ts", ".tsx"}
TEXT = CODE | {".txt", ".md", ".json", ".toml", ".yml", ".css", ".html", ".ini", ""}
HEADERS = {".h"}
CXX = {".cpp", ".h", ".cu"}
# Made by a tool, or data that tests read byte for byte.
SKIPPED = re.compile(r"(^|/)(Cargo\.lock|package-lock\.json|LICENSE)$"
                     r"|^tests/goldens/|^fuzz/corpus/")
# The only places whose job is to write to a terminal.
PRINTS = re.compile(r"^src/(cli/|base/(log|error))|^(bench|fuzz|tests|tools)/")

# Pattern, where it counts, and what to do instead. The brackets keep this file from matching.
LINE_RULES = [
    (r"[ \t]+$", TEXT, "trailing white space"),
    (r"\b(TOD[O]|FIXM[E]|XX[X])\b(?!\()", CODE, "a leftover without a (reference): do it now"),
    (r"/wor[k]/|/hom[e]/\w|/roo[t]/", TEXT, "a path of one machine"),
    (r"pypi\.or[g]|crates\.i[o]/|registry\.npmj[s]|static\.rust-lan[g]", TEXT,
     "a registry's host; its client knows where it is"),
    (r"\bstd::regex\b", CXX, "std::regex overflows the stack on long text; match by hand"),
    (r"\b(atoi|atof|atol|sprintf|strcpy|strcat)\s*\(", CXX, "an unchecked call; use std::from_chars"
     " or std::string"),
    (r"\b(s?rand)\s*\(", CXX, "the C library's random numbers; use base/rng.h"),
    (r"\bstd::endl\b", CXX, "std::endl flushes; write '\\n'"),
    (r"^\s*using namespace\b", HEADERS, "using namespace in a header"),
    (r"\[\[maybe_unused\]\]\s*static\b", CXX, "an unused function: delete it"),
]
LINE_RULES = [(re.compile(pattern), suffixes, what) for pattern, suffixes, what in LINE_RULES]
PRINT = re.compile(r"(?<![\w:])(std::)?(printf|puts|fprintf)\s*\(|\bstd::(cout|cerr)\b")


def check_line(path, suffix, line):
    """What is wrong with one line, each as a sentence."""
    if suffix in CODE and len(line) > COLUMNS_MAX:
        yield f"{len(line)} columns; at most {COLUMNS_MAX}"
    if suffix in CODE and "\t" in line:
        yield "a tab; indent with spaces"
    for pattern, suffixes, what in LINE_RULES:
        if suffix in suffixes and pattern.search(line):
            yield what
    if suffix in CXX and not PRINTS.match(path) and PRINT.search(line):
        yield "prints directly; log through base/log.h"


def check_file(path, text):
    """Every finding in one file, whose path is relative to the root, as (line, what)."""
    suffix = PurePosixPath(path).suffix
    lines = text.splitlines()
    found = [(number, what) for number, line in enumerate(lines, 1)
             for what in check_line(path, suffix, line)]
    if suffix in CODE and len(lines) > LINES_MAX:
        found.append((1, f"{len(lines)} lines; at most {LINES_MAX}: two rooms in one?"))
    # Kernel bodies (*_inl.h) are meant to be included once for each instruction set.
    guarded = path.endswith("_inl.h") or re.search(r"^(#pragma once|// No include guard: .*)$",
                                                   text, re.MULTILINE)
    if suffix in HEADERS and not guarded:
        found.append((1, "a header without #pragma once"))
    if text and not text.endswith("\n"):
        found.append((len(lines), "no newline at the end"))
    return found


def main():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout
    count = failures = 0
    for path in sorted(filter(None, listed.split("\0"))):
        file = ROOT / path
        if SKIPPED.search(path) or file.suffix not in TEXT or not file.is_file():
            continue
        count += 1
        for line, what in check_file(path, file.read_text(encoding="utf-8")):
            print(f"{path}:{line}: {what}")
            failures += 1
    print(f"tidy: {count} files, {failures} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
