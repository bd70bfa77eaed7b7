"""Tables from what compare.py measured: medians, ratios with their spread, and the share of the limit."""
import re
import statistics

import machine

LLAMA = {"llama off": "off", "llama on": "on"}  # engine: its flash attention
SMALLER_IS_BETTER = {"first token", "memory"}


def values(rounds, engine, figure):
    """The figure of each round, None where it is missing."""
    return [r.get(engine, {}).get(figure) for r in rounds]


def median(found):
    found = [x for x in found if x is not None]
    return statistics.median(found) if found else None


def title(figure):
    kind, _, number = figure.partition(" ")
    if kind == "decode":
        return f"decode, depth {number}"
    if kind == "columns":
        return f"pass of {number} column{'' if number == '1' else 's'}"
    return {"prefill": "prefill", "first token": "load to first token", "memory": "peak memory"}[figure]


def show(figure, value):
    if value is None:
        return "-"
    if figure == "first token":
        return f"{value * 1e3:.0f} ms"
    if figure == "memory":
        return f"{value / 1e6:.0f} MB"
    return f"{value:.0f} tok/s" if value >= 100 else f"{value:.1f} tok/s"


def figures(rounds):
    """Names of all that was measured, in the order of the table."""
    found = {name for r in rounds for engine in r.values() for name in engine
             if re.fullmatch(r"prefill|first token|memory|(decode|columns) \d+", name)}
    rank = {"prefill": 0, "decode": 1, "columns": 2, "first": 3, "memory": 4}

    def key(name):
        kind, _, number = name.partition(" ")
        return rank[kind], int(number) if number.isdigit() else 0

    return sorted(found, key=key)


def best_llama(rounds, figure):
    """The setting of llama.cpp with the better median: it alone counts, in all rounds."""
    medians = {engine: median(values(rounds, engine, figure)) for engine in LLAMA}
    medians = {engine: m for engine, m in medians.items() if m is not None}
    if not medians:
        return None
    return (min if figure in SMALLER_IS_BETTER else max)(medians, key=medians.get)


def ratios(rounds, engine, figure):
    """How many times better Gale is, round by round."""
    out = []
    for gale, other in zip(values(rounds, "gale", figure), values(rounds, engine, figure)):
        if gale and other:
            out.append(other / gale if figure in SMALLER_IS_BETTER else gale / other)
    return out


def share(rounds, engine, figure):
    """Median share of the limit, which Gale measures in the same round, in per cent."""
    out = []
    for value, limits in zip(values(rounds, engine, figure), values(rounds, "gale", "limit")):
        if value and limits and figure in limits:
            out.append(100 * value / limits[figure])
    return f"{statistics.median(out):.0f} %" if out else "-"


def table(rounds):
    lines = ["| | Gale | % of limit | llama.cpp | flash attention | % of limit | **ratio** | min .. max |",
             "|---|--:|--:|--:|:-:|--:|--:|--:|"]
    for figure in figures(rounds):
        engine = best_llama(rounds, figure)
        found = ratios(rounds, engine, figure)
        row = [title(figure), show(figure, median(values(rounds, "gale", figure))), share(rounds, "gale", figure),
               show(figure, median(values(rounds, engine, figure))), LLAMA.get(engine, "-"),
               share(rounds, engine, figure)]
        row += ([f"**{statistics.median(found):.2f}**", f"{min(found):.2f} .. {max(found):.2f}"] if found
                else ["-", "-"])
        lines.append("| " + " | ".join(row) + " |")
    return lines


def notes(rounds):
    """What the table has no column for."""
    lines = []
    engine = next((e for e in values(rounds, "gale", "engine") if e), None)
    if engine:
        lines.append(f"{len(rounds)} rounds. Gale: {engine}.")
    bandwidth = [b for b in values(rounds, "gale", "bandwidth") if b]
    if bandwidth:
        lines.append(f"Memory: {median(bandwidth) / 1e9:.1f} GB/s ({min(bandwidth) / 1e9:.1f} .. "
                     f"{max(bandwidth) / 1e9:.1f}).")
    for engine, name in (("gale", "Gale"), *((e, f"llama.cpp, flash attention {LLAMA[e]}") for e in LLAMA)):
        one = median(values(rounds, engine, "columns 1"))
        costs = [f"{int(f.split()[1]) * one / m:.2f}" for f in figures(rounds) if f.startswith("columns ") and one
                 and (m := median(values(rounds, engine, f)))]
        if len(costs) > 1:
            lines.append(f"Time of a pass of 1 to {len(costs)} columns in passes of one, {name}: {' / '.join(costs)}.")
    python = median([b for e in LLAMA for b in values(rounds, e, "python memory")])
    if python:
        lines.append(f"Python had taken {python / 1e6:.0f} MB before llama.cpp began; its peak memory is without them.")
    failures = sum(len(engine.get("failed", [])) for r in rounds for engine in r.values())
    if failures:
        lines.append(f"**Measurements that failed and are missing: {failures}.**")
    return lines


def document(result):
    lines = machine.lines(result["machine"])
    for name, file in result["files"].items():
        if file["rounds"]:
            lines += [f"### {name} ({file['bytes'] / 1e6:.0f} MB)", "", *table(file["rounds"]), ""]
            for note in notes(file["rounds"]):
                lines += [f"- {note}"]
            lines.append("")
    return "\n".join(lines)
