#!/usr/bin/env python3
"""How far Gale and llama.cpp are from exact arithmetic: mean KL divergence and top-1 agreement with the logits that
float64 gives for the same weights (the oracle of tests/oracle), over the tokens of one text. See docs/performance.md.

    python3 bench/peers/accuracy.py --gale build/release/gale --model FILE... [--markdown FILE]

Needs numpy and llama-cpp-python. The float64 logits take minutes per model and are kept in the work folder.
"""
import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import llama_peer
import machine

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "oracle"))

ROWS = 32  # rows per block: 32 rows of 262,144 words in float64 are 64 MiB


def say(text):
    print(f"accuracy: {text}", file=sys.stderr, flush=True)


def text_tokens(model, text):
    return llama_peer.Llama(model, 1, vocabulary_only=True).tokenize(text)


def write_reference(model, tokens, path):
    """The oracle's logits of every position, rounded to float32 only for storage."""
    from oracle import make  # after sys.path knows it

    config, weights = make.load(str(model))
    logits = make.run(config, weights, np.asarray(tokens)).logits
    part = path.with_suffix(".part.npy")
    np.save(part, logits.astype(np.float32))
    os.replace(part, path)


def write_llama(model, threads, tokens, flash, path):
    values = np.frombuffer(llama_peer.logits(str(model), threads, tokens, flash), np.float32)
    np.save(path, values.reshape(len(tokens), -1))


def apart(function, *arguments):
    """In a process of its own, so that its memory comes back and a crash is an error message."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode != 0:
        raise RuntimeError(f"{function.__name__} ended with status {process.exitcode}")


def reference(model, tokens, work):
    """Path of the float64 logits; computed once per content of the model file and tokens."""
    digest = hashlib.sha256(json.dumps(tokens).encode())
    with open(model, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    path = work / f"{pathlib.Path(model).stem}-{digest.hexdigest()[:16]}.npy"
    if not path.exists():
        say(f"{model}: float64 logits of {len(tokens)} tokens; this takes minutes")
        start = time.monotonic()
        apart(write_reference, model, tokens, path)
        say(f"{model}: done in {time.monotonic() - start:.0f} s")
    return path


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def compare(expected, got):
    """KL(expected || got) of each row in nats, and whether its likeliest token is the same."""
    if expected.shape != got.shape:
        raise RuntimeError(f"{got.shape} logits, but the reference has {expected.shape}")
    divergence, same = [], []
    for start in range(0, len(expected), ROWS):
        e, g = (np.asarray(x[start:start + ROWS], np.float64) for x in (expected, got))
        if not np.isfinite(g).all():
            raise RuntimeError(f"logits that aren't finite in rows {start} to {start + len(g) - 1}")
        p, q = log_softmax(e), log_softmax(g)
        divergence.append((np.exp(p) * (p - q)).sum(1))
        same.append(e.argmax(1) == g.argmax(1))
    return np.concatenate(divergence), np.concatenate(same)


def summary(divergence, same):
    return {"mean": float(divergence.mean()), "error": float(divergence.std(ddof=1) / np.sqrt(len(divergence))),
            "median": float(np.median(divergence)), "p99": float(np.quantile(divergence, 0.99)),
            "top1": float(same.mean())}


def run_gale(args, model, tokens, path, vocabulary):
    command = [args.gale, "logits", model, "--tokens", ",".join(map(str, tokens)), "--out", str(path), "--threads",
               str(args.threads), "--context", str(len(tokens)), *args.gale_options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"gale logits ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return np.memmap(path, np.float32, "r").reshape(-1, vocabulary)


def measure(args, model, text):
    tokens = text_tokens(model, text)[:args.tokens]
    path = reference(model, tokens, args.work)
    result = {"model": os.path.basename(model), "tokens": len(tokens), "engines": {}}
    if args.reference_only:
        return result
    expected = np.load(path, mmap_mode="r")
    per_row = {}
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        for engine in ("gale", "llama.cpp"):
            out = pathlib.Path(folder) / ("gale.f32" if engine == "gale" else "llama.npy")
            try:
                if engine == "gale":
                    got = run_gale(args, model, tokens, out, expected.shape[1])
                else:
                    apart(write_llama, model, args.threads, tokens, args.flash_attention, out)
                    got = np.load(out, mmap_mode="r")
                per_row[engine], same = compare(expected, got)
                result["engines"][engine] = summary(per_row[engine], same)
            except (RuntimeError, OSError, ValueError) as error:
                say(f"{model}, {engine}: {error}")
                result["engines"][engine] = {"failed": str(error)}
            finally:
                out.unlink(missing_ok=True)  # the mapping stays valid until it is dropped
    if len(per_row) == 2:
        difference = per_row["gale"] - per_row["llama.cpp"]
        result["difference"] = {"mean": float(difference.mean()),
                                "error": float(difference.std(ddof=1) / np.sqrt(len(difference)))}
    return result


def cells(engine):
    if "failed" in engine:
        return ["failed", "-", "-"]
    return [f"{engine['mean']:.5f} ± {engine['error']:.5f}", f"{engine['p99']:.4f}", f"{100 * engine['top1']:.1f} %"]


def markdown(results):
    lines = ["| file | tokens | Gale: mean KL | p99 | top-1 | llama.cpp: mean KL | p99 | top-1 | Gale - llama.cpp |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for result in results:
        if not result["engines"]:
            continue
        row = [result["model"], str(result["tokens"])]
        for engine in ("gale", "llama.cpp"):
            row += cells(result["engines"][engine])
        d = result.get("difference")
        row.append(f"{d['mean']:+.5f} ± {d['error']:.5f}" if d else "-")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="compares the logits of Gale and llama.cpp with float64 arithmetic")
    parser.add_argument("--gale", help="the program gale")
    parser.add_argument("--model", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--text", type=pathlib.Path, default=HERE / "texts" / "mixed.txt")
    parser.add_argument("--tokens", type=int, default=1024, help="how many of the text's tokens (default 1024)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=HERE.parents[1] / "build" / "accuracy",
                        help="folder of float64 logits, 4 bytes x tokens x vocabulary each (default build/accuracy)")
    parser.add_argument("--flash-attention", choices=llama_peer.FLASH_ATTENTION, default="auto", help="of llama.cpp")
    parser.add_argument("--gale-options", nargs=argparse.REMAINDER, default=[], help="the rest goes to gale logits")
    parser.add_argument("--reference-only", action="store_true", help="only compute the float64 logits")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    if not args.gale and not args.reference_only:
        parser.error("--gale PATH is needed")
    args.gale = args.gale and os.path.abspath(args.gale)
    for path in [*filter(None, [args.gale]), *args.model]:
        if not os.path.isfile(path):
            parser.error(f"{path} is not a file")
    args.work.mkdir(parents=True, exist_ok=True)
    text = args.text.read_text(encoding="utf-8")
    results = []
    for model in args.model:
        results.append(measure(args, model, text))
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    head = [] if args.reference_only else machine.lines(machine.facts(args.gale, args.threads, llama_peer.info(None)))
    table = "\n".join(head + [markdown(results)])
    if not args.reference_only:
        print(table, end="")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
