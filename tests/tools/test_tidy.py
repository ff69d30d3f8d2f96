"""The tidy check finds each thing it bans."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import tidy  # noqa: E402


def findings(path, text):
    return [what for _, what in tidy.check_file(path, text)]


@pytest.mark.parametrize("path, line, says", [
    ("src/a.cpp", "x" * 101, "101 columns"),
    ("src/a.cpp", "\tint a;", "tab"),
    ("docs/a.md", "text ", "trailing"),
    ("src/a.cpp", "// TO" + "DO later", "leftover"),
    ("src/a.rs", "// FIX" + "ME", "leftover"),
    ("docs/a.md", "see /wo" + "rk/x", "path of one machine"),
    ("docs/a.md", "from https://pypi" + ".org", "registry"),
    ("src/a.cpp", "std::regex r;", "std::regex"),
    ("src/a.cpp", "int a = atoi(s);", "unchecked"),
    ("src/a.cpp", "int a = rand();", "random"),
    ("src/a.cpp", "out << std::endl;", "flushes"),
    ("src/nn/a.cpp", 'printf("here");', "prints"),
    ("src/nn/a.cpp", "std::cerr << x;", "prints"),
])
def test_a_banned_line_is_named(path, line, says):
    found = findings(path, f"{line}\n")
    assert len(found) == 1 and says in found[0]


@pytest.mark.parametrize("path, line", [
    ("src/a.cpp", "x" * 100),
    ("src/a.cpp", "// TO" + "DO(docs/adr/0001): when the wheel has it"),
    ("src/cli/a.cpp", 'std::printf("ready\\n");'),
    ("src/nn/a.cpp", "std::snprintf(buffer, sizeof buffer, format, x);"),
    ("src/nn/a.cpp", "int operand(int x);"),
    ("docs/a.md", "x" * 300),
])
def test_a_fine_line_passes(path, line):
    assert findings(path, f"{line}\n") == []


def test_headers_need_pragma_once_and_no_using_namespace():
    assert findings("src/a.h", "#pragma once\n") == []
    assert "pragma once" in findings("src/a.h", "int a();\n")[0]
    assert findings("src/a_inl.h", "int a();\n") == []
    assert findings("src/a.h", "// No include guard: included twice.\n") == []
    assert "using namespace" in findings("src/a.h", "#pragma once\nusing namespace std;\n")[0]


def test_long_files_and_missing_last_newlines_are_found():
    assert findings("src/a.cpp", "\n" * 800) == []
    assert "801 lines" in findings("src/a.cpp", "\n" * 801)[0]
    assert "no newline" in findings("src/a.cpp", "int a;")[0]
