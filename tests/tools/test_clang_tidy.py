"""clang-tidy's memory forgets a file when anything that its verdict depends on changes."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import clang_tidy  # noqa: E402


def state(command, *files):
    clang_tidy.digest_of.cache_clear()
    return clang_tidy.state_of(command, files)


def test_a_state_depends_on_the_command_and_each_file(tmp_path):
    source, header = tmp_path / "a.cpp", tmp_path / "a.h"
    source.write_text("int a;")
    header.write_text("int b;")
    first = state("g++", source, header)
    assert state("g++", header, source) == first
    assert state("g++ -O1", source, header) != first
    header.write_text("int c;")
    assert state("g++", source, header) != first


def test_headers_are_read_from_ninjas_record(monkeypatch, tmp_path):
    monkeypatch.setattr(clang_tidy, "ROOT", tmp_path)
    monkeypatch.setattr(clang_tidy, "BUILD", tmp_path / "build")
    record = ("a.o: #deps 3, deps mtime 1 (VALID)\n    ../src/a.cpp\n    ../src/a.h\n"
              "    /usr/include/stdio.h\n\nb.o: #deps 1, deps mtime 1 (VALID)\n    ../src/b.cpp\n")
    monkeypatch.setattr(clang_tidy, "output_of", lambda *_: record)
    assert clang_tidy.project_headers() == {
        "a.o": [tmp_path / "src/a.cpp", tmp_path / "src/a.h"], "b.o": [tmp_path / "src/b.cpp"]}
