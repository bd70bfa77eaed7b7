"""Where, when and how a measurement was made: the lines above every table."""
import datetime
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=20)
        return done.stdout.strip().split("\n")[0]
    except (OSError, subprocess.TimeoutExpired):
        return ""


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            fields = dict(tuple(map(str.strip, line.split(":", 1))) for line in file if ":" in line)
        return f"{fields.get('model name', 'unknown')} (family {fields.get('cpu family')}, model {fields.get('model')})"
    except OSError:
        return os.uname().machine


def command():
    """The command line without the folders of this machine and without where the results went."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if not skip and word not in ("--json", "--markdown", "--work"):
            words.append(os.path.basename(word) if os.sep in word and not word.startswith("-") else word)
        skip = not skip and word in ("--json", "--markdown", "--work")
    return shlex.join(["python3", f"bench/peers/{os.path.basename(sys.argv[0])}", *words])


def facts(gale, threads, llama):
    """llama: what llama_peer.info says."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    commit = first_line(["git", "describe", "--always", "--dirty"])
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "processor": processor(), "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 2**30, 1),
            "kernel": os.uname().release, "threads": threads, "commit": commit or "unknown",
            "gale": first_line([gale, "--version"]) or "unknown", "llama_cpp": llama["version"],
            "llama_system": llama["system"], "load": round(os.getloadavg()[0], 2), "command": command()}


def lines(m):
    flags = ", ".join(part.split("=")[0].strip() for part in m["llama_system"].replace("CPU :", "").split("|")
                      if part.strip().endswith("= 1"))
    return [f"{m['date']}; {m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}; "
            f"load before: {m['load']}. {m['threads']} threads. {m['gale']} ({m['commit']}); "
            f"llama-cpp-python {m['llama_cpp']} ({flags}).", "", f"    {m['command']}", ""]
