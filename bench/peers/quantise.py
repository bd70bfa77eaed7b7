#!/usr/bin/env python3
"""`gale convert` beside llama.cpp's quantiser (llama-cpp-python): squared errors of the encoders, types of every tensor,
logits of the written files in both engines, what quantising does to them, time and memory. See docs/formats.md for the results.

    python3 bench/peers/quantise.py --gale build/release/gale errors [--weights FILE.safetensors]
    python3 bench/peers/quantise.py --gale build/release/gale types FILE...
    python3 bench/peers/quantise.py --gale build/release/gale logits FILE...
    python3 bench/peers/quantise.py --gale build/release/gale quality FILE...
    python3 bench/peers/quantise.py --gale build/release/gale speed FILE [--type q4_k_m] [--rounds N]

Needs numpy and llama-cpp-python. FILE is a GGUF file; quantised ones are decoded and encoded again.
"""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import llama_cpp as lc
import numpy as np

import llama_peer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "oracle"))
from oracle import blocks, gguf_io, make, safetensors_io  # noqa: E402

# Gale's names of mixes and llama.cpp's numbers of file types.
MIXES = {"q4_k_m": 15, "q4_k_s": 14, "q5_k_m": 17, "q5_k_s": 16, "q6_k": 18, "q8_0": 7, "q4_0": 2, "q4_1": 3, "q5_0": 8,
         "q5_1": 9, "iq4_nl": 25, "mxfp4": 38, "bf16": 32, "f16": 1, "f32": 0}
# --type of Gale for which a matrix that is named nothing special becomes the type on the right.
ENCODERS = {"q4_0": "q4_0", "q4_1": "q4_1", "q5_0": "q5_0", "q5_1": "q5_1", "q8_0": "q8_0", "q4_k": "q4_K",
            "q5_k": "q5_K", "q6_k": "q6_K", "iq4_nl": "iq4_nl", "mxfp4": "mxfp4"}
ROWS, ROW = 1024, 2048
NO_QUALITY_LIMIT = 0.05  # nats: Gale and llama.cpp on one file; both round activations, each in its way


def convert(gale, source, out, kind, *more):
    done = subprocess.run([gale, "convert", str(source), str(out), "--type", kind, *more], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"gale convert --type {kind} {source}: {done.stderr.strip()}")


def llama_params(file_type, threads):
    params = lc.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.allow_requantize = file_type, threads, True
    return params


def llama_convert(source, out, file_type, threads=1):
    if lc.llama_model_quantize(os.fsencode(source), os.fsencode(out), llama_params(file_type, threads)) != 0:
        raise RuntimeError(f"llama.cpp could not quantise {source} to file type {file_type}")


# ---------------------------------------------------------------- errors

def ggml_base():
    """The library with ggml's quantisers, beside libllama."""
    folder = pathlib.Path(lc.__file__).parent / "lib"
    library = ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_void_p]
    return library


def llama_values(library, kind, x):
    t = blocks.TYPES[kind]
    library.ggml_quantize_init(t.id)
    raw = np.zeros(x.size // t.block * t.bytes, np.uint8)
    library.ggml_quantize_chunk(t.id, x.ctypes.data, raw.ctypes.data, 0, x.shape[0], x.shape[1], None)
    return blocks.dequantize(kind, raw.tobytes(), x.shape)


def error_inputs(weights):
    random = np.random.RandomState(7)
    inputs = {"Gaussian": random.standard_normal((ROWS, ROW)) * 0.02, "Laplacian": random.laplace(0, 0.02, (ROWS, ROW))}
    for path in weights:
        for name, tensor in safetensors_io.read(str(path)).items():
            x = safetensors_io.decode(tensor)
            if x.ndim == 2 and x.shape[1] % 256 == 0:
                inputs[f"{pathlib.Path(path).stem}: {name}"] = x[:len(x) // 2 * 2]
    return {name: np.ascontiguousarray(x, np.float32) for name, x in inputs.items()}


def errors(args):
    library, inputs = ggml_base(), error_inputs(args.weights)
    print("| type | " + " | ".join(f"{name}: Gale | llama.cpp | ratio" for name in inputs) + " |")
    print("|---|" + "--:|--:|--:|" * len(inputs))
    worse = 0
    with tempfile.TemporaryDirectory() as folder:
        source, out = f"{folder}/f32.gguf", f"{folder}/out.gguf"
        # Three dimensions: mxfp4 is for stacks of matrices.
        tensors = {f"t{i}.weight": ("f32", (2, len(x) // 2, x.shape[1]), x.tobytes()) for i, x in enumerate(inputs.values())}
        gguf_io.write(source, {"general.architecture": "llama"}, tensors)
        for gale_type, kind in ENCODERS.items():
            convert(args.gale, source, out, gale_type)
            written = gguf_io.read(out)[1]
            cells = []
            for i, x in enumerate(inputs.values()):
                got_kind, _, raw = written[f"t{i}.weight"]
                assert got_kind == kind, (got_kind, kind)
                size = (x.astype(float) ** 2).sum()
                ours = ((blocks.dequantize(kind, raw, x.shape) - x) ** 2).sum() / size
                theirs = ((llama_values(library, kind, x) - x) ** 2).sum() / size
                worse += ours > theirs
                cells += [f"{ours:.3e}", f"{theirs:.3e}", f"{ours / theirs:.3f}"]
            print(f"| {kind.upper()} | " + " | ".join(cells) + " |", flush=True)
    return worse


# ---------------------------------------------------------------- types

def types(args):
    """Prints every tensor for which the two choose different types."""
    different = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = f"{folder}/gale.gguf", f"{folder}/llama.gguf"
        for model in args.files:
            for kind, file_type in MIXES.items():
                convert(args.gale, model, ours, kind, "--requantize")
                llama_convert(model, theirs, file_type)
                (meta, got), (expected_meta, expected) = gguf_io.read(ours), gguf_io.read(theirs)
                keys = [k for k in {*meta, *expected_meta} if repr(meta.get(k)) != repr(expected_meta.get(k))]
                names = [n for n in {*got, *expected} if got.get(n, [None])[0] != expected.get(n, [None])[0]]
                compared += len(expected)
                different += len(names) + len(keys)
                for name in names:
                    print(f"{model} {kind}: {name} is {got.get(name, ['missing'])[0]}, "
                          f"llama.cpp has {expected.get(name, ['missing'])[0]}")
                for key in keys:
                    print(f"{model} {kind}: key {key} is {meta.get(key)!r}, llama.cpp has {expected_meta.get(key)!r}")
    print(f"{compared} tensors compared, {different} differences")
    return different


# ---------------------------------------------------------------- logits

def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def divergence(p, q):
    """Mean KL divergence of rows of logits in nats."""
    p, q = log_softmax(np.asarray(p, np.float64)), log_softmax(np.asarray(q, np.float64))
    return float((np.exp(p) * (p - q)).sum(1).mean())


def gale_logits(gale, model, tokens):
    command = [gale, "logits", str(model), "--tokens", ",".join(map(str, tokens)), "--out", "-"]
    done = subprocess.run(command, capture_output=True)
    if b"no CPU kernel" in done.stderr:  # the plain executor knows all types, slowly
        done = subprocess.run([*command, "--executor", "reference"], capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"gale logits {model}: {done.stderr.decode().strip()}")
    return np.frombuffer(done.stdout, np.float32).reshape(len(tokens), -1)


def llama_logits(model, tokens):
    """In a process of its own: a crash is then a message."""
    script = ("import json, sys; import llama_peer; job = json.loads(sys.argv[1]); "
              "sys.stdout.buffer.write(llama_peer.logits(job['model'], 2, job['tokens']).tobytes())")
    done = subprocess.run([sys.executable, "-c", script, json.dumps({"model": str(model), "tokens": tokens})],
                          capture_output=True, cwd=pathlib.Path(__file__).parent)
    if done.returncode != 0:
        raise RuntimeError(f"llama.cpp on {model}: {done.stderr.decode().strip()[-300:]}")
    return np.frombuffer(done.stdout, np.float32).reshape(len(tokens), -1)


def logits(args):
    """Every file that Gale writes, in both engines; small models in float64 arithmetic too."""
    failed = 0
    print("| file | type | MB | Gale to llama.cpp: KL | to the float64 oracle: Gale | llama.cpp | written file to source: KL |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for model in map(pathlib.Path, args.files):
        tokens = [(7919 * i + 13) % args.words for i in range(args.tokens)]
        before = gale_logits(args.gale, model, tokens)
        for kind in args.types.split(","):
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "out.gguf"
                convert(args.gale, model, out, kind, "--requantize")
                ours, theirs = gale_logits(args.gale, out, tokens), llama_logits(out, tokens)
                between = divergence(theirs, ours)
                exact = ["-", "-"]
                if out.stat().st_size < 100e6:
                    expected = make.run(*make.load(str(out)), np.asarray(tokens)).logits
                    exact = [f"{divergence(expected, x):.2e}" for x in (ours, theirs)]
                failed += not between < NO_QUALITY_LIMIT
                print(f"| {model.parent.name}/{model.name} | {kind} | {out.stat().st_size / 1e6:.1f} | {between:.2e} | "
                      f"{exact[0]} | {exact[1]} | {divergence(before, ours):.4f} |", flush=True)
    return failed


# ---------------------------------------------------------------- quality

def quality(args):
    """What each quantiser does to the logits: divergence from those of the source, all computed by Gale."""
    text = (pathlib.Path(__file__).parent / "texts" / "mixed.txt").read_text(encoding="utf-8")
    print("| source | type | Gale: mean KL | llama.cpp: mean KL |\n|---|---|--:|--:|")
    for model in args.files:
        tokens = llama_peer.Llama(model, 1, vocabulary_only=True).tokenize(text)[:args.tokens]
        expected = gale_logits(args.gale, model, tokens)
        for kind in args.types.split(","):
            with tempfile.TemporaryDirectory() as folder:
                ours, theirs = f"{folder}/gale.gguf", f"{folder}/llama.gguf"
                convert(args.gale, model, ours, kind, "--requantize")
                llama_convert(model, theirs, MIXES[kind], os.cpu_count())
                cells = [f"{divergence(expected, gale_logits(args.gale, file, tokens)):.5f}" for file in (ours, theirs)]
            print(f"| {pathlib.Path(model).name} | {kind} | {cells[0]} | {cells[1]} |", flush=True)
    return 0


# ---------------------------------------------------------------- speed

def measured(command):
    """Wall seconds, processor seconds and peak of memory in MB of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with status {process.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def speed(args):
    model, threads = args.files[0], str(args.threads)
    script = ("import sys; import llama_cpp as lc; p = lc.llama_model_quantize_default_params(); "
              "p.ftype, p.nthread, p.allow_requantize = int(sys.argv[3]), int(sys.argv[4]), True; "
              "sys.exit(lc.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), p))")
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        out = f"{folder}/out.gguf"
        commands = {"Gale": [args.gale, "convert", model, out, "--type", args.type, "--threads", threads, "--requantize"],
                    "llama.cpp": [sys.executable, "-c", script, model, out, str(MIXES[args.type]), threads]}
        print("| engine | seconds | processor seconds | peak MB |\n|---|--:|--:|--:|")
        best = {}
        for _ in range(args.rounds):
            for name, command in commands.items():
                figures = measured(command)
                best[name] = tuple(map(min, best.get(name, figures), figures))
                os.unlink(out)
        for name, (wall, processor, memory) in best.items():
            print(f"| {name} | {wall:.1f} | {processor:.1f} | {memory:.0f} |")
    return 0


def main():
    parser = argparse.ArgumentParser(description="compares gale convert with llama.cpp's quantiser")
    parser.add_argument("--gale", required=True, type=os.path.abspath)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("errors")
    command.add_argument("--weights", nargs="*", default=[], help="safetensors files with real weights")
    command = commands.add_parser("types")
    command.add_argument("files", nargs="+")
    command = commands.add_parser("logits")
    command.add_argument("files", nargs="+")
    command.add_argument("--types", default=",".join(MIXES))
    command.add_argument("--tokens", type=int, default=64)
    command.add_argument("--words", type=int, default=96, help="token ids are below this number")
    command = commands.add_parser("quality")
    command.add_argument("files", nargs="+")
    command.add_argument("--types", default="q4_k_m,q4_0,q6_k,q8_0")
    command.add_argument("--tokens", type=int, default=384)
    command = commands.add_parser("speed")
    command.add_argument("files", nargs=1)
    command.add_argument("--type", default="q4_k_m", choices=MIXES)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--work", default=None, help="folder for the written files")
    args = parser.parse_args()
    silence = lc.llama_log_callback(lambda _level, _text, _data: None)
    lc.llama_log_set(silence, ctypes.c_void_p(0))
    sys.exit(1 if globals()[args.command](args) else 0)


if __name__ == "__main__":
    main()
