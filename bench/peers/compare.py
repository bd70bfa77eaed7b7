#!/usr/bin/env python3
"""Runs Gale and llama.cpp (llama-cpp-python) side by side on the same file, threads and tokens, in interleaved rounds,
and prints the ratios with their spread. See docs/performance.md for what is measured and how.

    python3 bench/peers/compare.py --gale build/release/gale --model FILE... [--json FILE] [--markdown FILE]

Run it with a Python that has llama-cpp-python, built for this machine, on a machine that does nothing else.
"""
# Only the standard library: a child's peak of memory starts at its parent's, so this process has to stay small.
import argparse
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import machine
import report

HERE = pathlib.Path(__file__).resolve().parent
CONTEXT_EXTRA = 512  # positions beyond the deepest depth: room for the passes
FIRST_TOKENS = 20    # prompt of the time to the first token
MEMORY_TOKENS = 512  # prompt of the peak of memory


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


class Failed(Exception):
    pass


def run(command, limit):
    """Runs a command; returns its output, the seconds to its first byte, and its peak of memory."""
    # A group of its own so that a timeout ends all of it.
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    errors = []
    drain = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    drain.start()
    timer = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        first = os.read(process.stdout.fileno(), 1)
        first_byte = time.perf_counter() - start
        output = first + process.stdout.read()
    except BaseException:  # Ctrl-C doesn't reach another group
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)  # or subprocess would wait for it again
        drain.join()
        process.stdout.close()
        process.stderr.close()
    if process.returncode != 0:
        text = errors[0].decode(errors="replace").strip()
        raise Failed(f"{shlex.join(command[:3])} ... ended with status {process.returncode}: {text[-500:]}")
    return output.decode(errors="replace"), first_byte, usage.ru_maxrss * 1024


def peer(args, what, job):
    output, _, _ = run([sys.executable, str(HERE / "llama_peer.py"), what, json.dumps(job)], args.limit)
    return json.loads(output)


def context(args):
    return max([args.prefill, MEMORY_TOKENS, *args.depths]) + CONTEXT_EXTRA


def gale_bench(args, model, _prompts, _state):
    command = [args.gale, "bench", model, "--json", "-", "--rounds", "1", "--threads", str(args.threads), "--context",
               str(context(args)), "--prefill", str(args.prefill), "--depths", ",".join(map(str, args.depths)),
               "--columns", str(args.columns), "--passes", str(args.passes)]
    found = json.loads(run(command, args.limit)[0])
    bandwidth = found["bandwidth_bytes_per_second"]
    out = {"bandwidth": bandwidth, "limit": {}, "engine": found["engine"]}
    if args.prefill:
        out["prefill"] = args.prefill / found["prefill"]["seconds"]
    for entry in found["decode"]:
        name = f"decode {entry['depth']}"
        out[name] = 1 / entry["seconds"]
        out["limit"][name] = bandwidth / entry["bytes"]
    for entry in found["columns"]:
        name = f"columns {entry['columns']}"
        out[name] = entry["columns"] / entry["seconds"]
        out["limit"][name] = entry["columns"] * bandwidth / entry["bytes"]
    return out


def gale_first(args, model, prompts, _state):
    """Seconds from the start of a process to the first byte of its answer, and the peak of memory of another one."""
    out = {}
    for name, count in (("first token", FIRST_TOKENS), ("memory", MEMORY_TOKENS)):
        command = [args.gale, "run", model, "--raw", "--quiet", "--temperature", "0", "--max-tokens", "1",
                   "--ignore-end", "--threads", str(args.threads), "--context", str(context(args)),
                   prompts[str(count)]["text"]]
        _, seconds, peak = run(command, args.limit)
        out[name] = seconds if name == "first token" else peak
    return out


def llama_bench(flash):
    def measure(args, model, _prompts, state):
        found = peer(args, "bench", {"model": model, "threads": args.threads, "context": context(args), "flash": flash,
                                     "prefill": args.prefill, "depths": args.depths, "columns": args.columns,
                                     "passes": args.passes, "state": f"{state}-{flash}-{{depth}}"})
        out = {f"decode {depth}": 1 / seconds for depth, seconds in found["decode"].items()}
        out |= {f"columns {n}": int(n) / seconds for n, seconds in found["columns"].items()}
        if args.prefill:
            out["prefill"] = args.prefill / found["prefill"]
        return out
    return measure


def llama_first(flash):
    def measure(args, model, prompts, _state):
        job = {"model": model, "threads": args.threads, "context": context(args), "flash": flash}
        first = peer(args, "first", job | {"prompt": prompts[str(FIRST_TOKENS)]["text"]})
        whole = peer(args, "first", job | {"prompt": prompts[str(MEMORY_TOKENS)]["text"]})
        return {"first token": first["seconds"], "memory": whole["peak_bytes"] - whole["python_bytes"],
                "python memory": whole["python_bytes"]}
    return measure


# Name of the column, then what fills it. The two settings of llama.cpp are measured like two engines.
MEASUREMENTS = {"gale": (gale_bench, gale_first), "llama off": (llama_bench("off"), llama_first("off")),
                "llama on": (llama_bench("on"), llama_first("on"))}


def measure_round(args, model, prompts, state, number):
    """One round of all engines; every other round in the opposite order, so that a drift hits them alike."""
    out = {}
    for engine in sorted(MEASUREMENTS, reverse=number % 2 == 1):
        out[engine] = {}
        for measure in MEASUREMENTS[engine]:
            try:
                out[engine] |= measure(args, model, prompts, state)
            except (Failed, KeyError, ValueError) as error:
                say(f"{os.path.basename(model)}, round {number + 1}, {engine}: {error}")
                out[engine].setdefault("failed", []).append(str(error))
    return out


def check_tokens(args, model, prompts):
    """Says so when Gale reads another number of tokens from the prompts than llama.cpp."""
    for count, prompt in prompts.items():
        process = subprocess.run([args.gale, "run", model, "--raw", "--temperature", "0", "--max-tokens", "1",
                                  "--threads", str(args.threads), "--context", str(context(args)), prompt["text"]],
                                 capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        if f"prompt {prompt['tokens']} tokens" not in process.stderr:
            say(f"{os.path.basename(model)}: llama.cpp sees {prompt['tokens']} tokens in the prompt of {count}, Gale: "
                f"{process.stderr.strip()[-200:]}")


def numbers(text):
    return [int(x) for x in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description="Gale and llama.cpp side by side")
    parser.add_argument("--gale", required=True, help="the program gale")
    parser.add_argument("--model", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512, help="tokens; 0: none (default 512)")
    parser.add_argument("--depths", type=numbers, default=[0, 4096], help="default 0,4096")
    parser.add_argument("--columns", type=int, default=8, help="passes of 1 to N columns (default 8)")
    parser.add_argument("--passes", type=int, default=32, help="decoding passes per round (default 32)")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a process is ended (default 900)")
    parser.add_argument("--json", type=pathlib.Path, help="everything that was measured; written after every round")
    parser.add_argument("--markdown", type=pathlib.Path, help="the tables, also for docs/performance.md")
    args = parser.parse_args()
    if args.rounds < 1 or args.passes < 1 or args.columns < 1:
        parser.error("--rounds, --passes and --columns are at least 1")
    for path in [args.gale, *args.model]:
        if not os.path.isfile(path):
            parser.error(f"{path} is not a file")
    args.gale = os.path.abspath(args.gale)
    return args


def main():
    args = arguments()
    try:
        facts = machine.facts(args.gale, args.threads, peer(args, "info", {}))
    except Failed as error:
        sys.exit(f"compare: {error}")
    if facts["load"] > 0.5:
        say(f"the load of this machine is {facts['load']}: something else runs, so figures will be wrong")
    result = {"machine": facts, "files": {}}
    text = (HERE / "texts" / "mixed.txt").read_text(encoding="utf-8")
    for model in args.model:
        name, start = os.path.basename(model), time.monotonic()
        try:
            prompts = peer(args, "prompts", {"model": model, "text": text, "counts": [FIRST_TOKENS, MEMORY_TOKENS]})
        except Failed as error:
            say(f"{name} is left out: {error}")
            continue
        check_tokens(args, model, prompts)
        result["files"][name] = {"bytes": os.path.getsize(model), "rounds": []}
        with tempfile.TemporaryDirectory() as folder:
            for number in range(args.rounds):
                result["files"][name]["rounds"].append(
                    measure_round(args, model, prompts, os.path.join(folder, "cache"), number))
                say(f"{name}: round {number + 1} of {args.rounds}, {time.monotonic() - start:.0f} s")
                if args.json:
                    args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
                if args.markdown:
                    args.markdown.write_text(report.document(result), encoding="utf-8")
    print(report.document(result), end="")


if __name__ == "__main__":
    main()
