"""The README and the pages of docs/ do what they say.

Fenced blocks say by their first line how they are tested:
  ```sh          run by bash, in order, in the project's root; each command must succeed
  ```sh setup    not run: set-up and the server itself, which other tests cover
  ```python      run by the project's Python
  ```json, ```text, ```cpp and the like are for reading; they hold no commands
The pages speak of localhost:8080; here that is the address of a server on a free port, which
commands also find in TANDEM_URL and PORT. curl fails on an HTTP error.
"""
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
KINDS = {"sh", "sh setup", "python", "json", "text", "cpp", "cmake", "toml", "http", "html"}
RUNNABLE = {"sh", "python"}
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
COMMAND_SECONDS_MAX = 300


class Block(NamedTuple):
    kind: str
    code: str
    line: int


def blocks_of(text):
    return [Block(found[1].strip(), found[2], text.count("\n", 0, found.start()) + 1)
            for found in FENCE.finditer(text)]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def runnable(page):
    return [block for block in blocks_of(page.read_text()) if block.kind in RUNNABLE]


def run_block(block, server, folder):
    code = block.code.replace("localhost:8080", f"{server.host}:{server.port}")
    (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n")
    env = {**os.environ, "TANDEM_URL": server.url, "PORT": str(server.port),
           "CURL_HOME": str(folder),
           "PATH": f"{ROOT / 'build'}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c"] if block.kind == "sh" else [sys.executable, "-c"]
    return subprocess.run([*command, code], env=env, cwd=ROOT, capture_output=True, text=True,
                          timeout=COMMAND_SECONDS_MAX)


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_the_commands_of_a_page_work(page, tandem_server, tmp_path):
    for block in runnable(page):
        done = run_block(block, tandem_server, tmp_path)
        assert done.returncode == 0, (
            f"{name_of(page)}:{block.line} failed\n{block.code}\n{done.stdout}\n{done.stderr}")
        assert done.stdout.strip(), f"{name_of(page)}:{block.line} printed nothing"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_how_it_is_tested(page):
    for block in blocks_of(page.read_text()):
        assert block.kind in KINDS, f"{name_of(page)}:{block.line}: ```{block.kind}"
        if block.kind not in RUNNABLE | {"sh setup"}:
            assert not re.search(r"^(\$ |curl |make |pip )", block.code, re.MULTILINE), (
                f"{name_of(page)}:{block.line}: commands belong in a ```sh block")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_blocks_are_read_with_kind_code_and_line():
    text = "# A\n\n```sh\nls\nls\n```\ntext\n```sh setup\nmake serve\n```\n"
    assert blocks_of(text) == [Block("sh", "ls\nls\n", 3), Block("sh setup", "make serve\n", 8)]


class FakeServer(NamedTuple):
    url: str = "http://127.0.0.1:1234"
    host: str = "127.0.0.1"
    port: int = 1234


@pytest.mark.parametrize("kind, code, status, output", [
    ("sh", "echo localhost:8080 $PORT $TANDEM_URL\n", 0,
     "127.0.0.1:1234 1234 http://127.0.0.1:1234\n"),
    ("sh", "false\necho later\n", 1, ""),
    ("sh", "false | cat\n", 1, ""),
    ("python", "import httpx\nprint('localhost:8080')\n", 0, "127.0.0.1:1234\n"),
])
def test_a_block_is_run_against_the_server(kind, code, status, output, tmp_path):
    done = run_block(Block(kind, code, 1), FakeServer(), tmp_path)
    assert (done.returncode, done.stdout) == (status, output)
