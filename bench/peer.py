"""llama.cpp, built for this machine from the source that the Python package llama-cpp-python has.

Folder: the cache's tandem/peer, or TANDEM_PEER. Inside: the source, and for each variant a build
folder whose programs are in bin/. A variant is built once; its file `recipe` says from what.
"""
import hashlib
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from .problem import Problem

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-server")
COMPILER = ("clang-19", "clang++-19")  # g++ 12 makes AMX kernels that die

OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release", "CMAKE_C_COMPILER": COMPILER[0],
    "CMAKE_CXX_COMPILER": COMPILER[1], "BUILD_SHARED_LIBS": "OFF", "GGML_OPENMP": "OFF",
    "LLAMA_CURL": "OFF", "LLAMA_OPENSSL": "OFF", "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_BUILD_UI": "OFF", "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_BUILD_APP": "OFF", "LLAMA_BUILD_NUMBER": "0", "LLAMA_BUILD_COMMIT": "sdist"}
# What TANDEM_ISA forces -> options of the peer that may use no more than that.
_AVX2 = {"GGML_NATIVE": "OFF", "GGML_AVX2": "ON", "GGML_FMA": "ON", "GGML_F16C": "ON",
         "GGML_BMI2": "ON"}
VARIANTS = {"native": {"GGML_NATIVE": "ON"}, "avx2": _AVX2,
            "avx512": {**_AVX2, "GGML_AVX512": "ON", "GGML_AVX512_VBMI": "ON",
                       "GGML_AVX512_VNNI": "ON"}}

# Flags of /proc/cpuinfo that matter here -> what system_info calls them.
FEATURES = {"avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "avx512f": "AVX512",
            "avx512_vnni": "AVX512_VNNI", "avx512_bf16": "AVX512_BF16", "avx_vnni": "AVX_VNNI",
            "amx_int8": "AMX_INT8"}
ALLOWED = {"native": set(FEATURES), "avx2": {"avx2", "fma", "f16c"},
           "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512_vnni"}}


def cache_folder():
    """Where Tandem keeps what it has fetched or made once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem"


def peer_folder():
    return Path(os.environ.get("TANDEM_PEER") or cache_folder() / "peer")


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run_visible(command, failed):
    if subprocess.run([str(word) for word in command], stdout=sys.stderr).returncode:
        raise Problem(f"{failed}; the command was `{' '.join(map(str, command))}`.\n"
                      "  Mend what it names above, then run the same make command again.")


def get_source(folder):
    """The folder of llama.cpp's source, downloaded and unpacked if it is not there."""
    source = folder / f"{PACKAGE.replace('-', '_')}-{VERSION}"
    if source.is_dir():
        return source / "vendor/llama.cpp"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"{source.name}.tar.gz"
    if not archive.exists():
        say(f"getting the source of llama.cpp ({PACKAGE} {VERSION}, 73 MB)")
        run_visible([sys.executable, "-m", "pip", "--disable-pip-version-check", "download",
                     "--no-deps", "--no-binary", PACKAGE, "--dest", folder,
                     f"{PACKAGE}=={VERSION}"], "the peer's source could not be downloaded")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise Problem(f"{archive} has sha256 {found}, expected {SHA256}.\n"
                      "  Remove it, then run the same make command again.")
    unpacked = folder / f"unpacking-{os.getpid()}"
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked)
    (unpacked / source.name).rename(source)
    unpacked.rmdir()
    return source / "vendor/llama.cpp"


def recipe(variant):
    """What a build folder was made of, as text."""
    options = {**OPTIONS, **VARIANTS[variant]}
    return "".join([f"{PACKAGE} {VERSION}\n", *(f"{k}={v}\n" for k, v in options.items())])


def configure(source, build, variant):
    options = {**OPTIONS, **VARIANTS[variant]}
    say(f"configuring llama.cpp in {build}")
    run_visible(["cmake", "--log-level=WARNING", "-S", source, "-B", build, "-G", "Ninja",
                 *(f"-D{name}={value}" for name, value in options.items())],
                "llama.cpp could not be configured")


def get_peer(isa):
    """The folder of the peer's programs; isa is what TANDEM_ISA forces, or ""."""
    variant = isa or "native"
    if variant not in VARIANTS:
        raise Problem(f"there is no peer for instruction set {isa!r}; "
                      f"choose from {', '.join(list(VARIANTS)[1:])}")
    build = peer_folder() / variant
    done = build / "recipe"
    if not (done.exists() and done.read_text() == recipe(variant)):
        source = get_source(peer_folder())
        configure(source, build, variant)
        say(f"building {', '.join(PROGRAMS)} (10 minutes on 2 cores)")
        run_visible(["cmake", "--build", build, "--target", *PROGRAMS],
                    "llama.cpp could not be built")
        done.write_text(recipe(variant))
    return build / "bin"


def system_info(folder):
    """What the peer's build says of itself: {"build": text, "features": [names]}.

    llama-server prints it before it looks for its model.
    """
    said = subprocess.run([folder / "llama-server", "-m", "/nonexistent", "-lv", "4"],
                          capture_output=True, text=True)
    return parse_system_info(said.stdout + said.stderr)


def parse_system_info(text):
    line = re.search(r"system_info: (.*)", text)
    build = re.search(r"build \d+ \([^)]*\) with (.*)", text)
    if not line:
        raise Problem("llama-server printed no system_info")
    features = re.findall(r"(\w+) = 1\b", line[1])
    return {"version": f"{PACKAGE} {VERSION}", "compiler": build[1] if build else "",
            "system_info": line[1].strip(" |"), "features": features}


def missing_features(features, cpu_flags, isa):
    """Instruction sets that the machine has and the peer may use, but was not built for."""
    allowed = ALLOWED[isa or "native"]
    return [name for flag, name in FEATURES.items()
            if flag in allowed and flag in cpu_flags and name not in features]
