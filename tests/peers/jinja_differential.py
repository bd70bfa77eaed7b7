"""Random small templates, rendered by jinja2 and by Gale; prints what differs. Run by hand:

    PYTHON_WITH_JINJA2 tests/peers/jinja_differential.py BUILD/tests/test_text [COUNT] [SEED]
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import jinja_reference

WORDS = ["a", "b c", "  x ", "A-b", "é", "it's", 'say "q"', "", "<|t|>", "1", "-3.5", "l1\nl2\n", "日本", "Zz"]
NAMES = ["x", "y", "messages", "tools", "bos_token", "ns", "nope", "loop"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "join('-')", "default('d')", "d('e', true)", "first",
           "last", "replace('a', 'bb')", "tojson", "tojson(indent=2)", "string", "int", "float", "list", "unique|list",
           "reverse|list", "sort", "dictsort", "items|list", "indent", "e", "round", "abs", "sum", "min", "max",
           "wordcount", "map('upper')|list", "map(attribute='role')|list", "select('string')|list", "reject('none')|list",
           "selectattr('role', 'eq', 'user')|list", "batch(2)|list", "center(9)", "truncate(5)", "count"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable",
         "sequence", "true", "false", "odd", "even", "divisibleby(2)", "eq(1)", "in([1, 'a'])", "lower", "upper", "callable"]
METHODS = ["strip()", "split()", "split('a')", "rsplit(' ', 1)", "startswith('a')", "endswith('c')", "replace('b', '')",
           "upper()", "title()", "find('b')", "count('a')", "splitlines()", "join(['p', 'q'])", "lstrip('a')", "items()",
           "keys()", "get('k')", "index('a')", "isdigit()", "partition('b')", "zfill(5)", "format(1)", "swapcase()",
           "capitalize()", "rfind('a')", "isupper()", "islower()", "center(4)"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in", "**"]


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def expression(rng, depth):
    pick = rng.random()
    if depth <= 0 or pick < 0.22:
        return rng.choice([literal(rng.choice(WORDS)), str(rng.randint(-3, 12)), rng.choice(["1.5", "0.25", "2.0"]),
                           rng.choice(NAMES), "true", "false", "none", "[]", "{}", "messages[0].content"])
    inner = lambda: expression(rng, depth - 1)  # noqa: E731
    if pick < 0.42:
        operator = rng.choice(BINARY)
        right = str(rng.randint(0, 3)) if operator == "**" else inner()
        return f"{inner()} {operator} {right}"
    if pick < 0.56:
        return f"({inner()})|{rng.choice(FILTERS)}"
    if pick < 0.64:
        return f"{inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)}"
    if pick < 0.74:
        return f"({inner()}).{rng.choice(METHODS)}"
    if pick < 0.79:
        # "if messages" keeps jinja2 from folding constants, which makes a wrong slice undefined and not an error.
        return f"({inner()} if messages else 0)[{rng.choice(['0', '-1', '1:', ':2', '::-1', '0:1', literal('k'), ':-1', '1:9:2'])}]"
    if pick < 0.85:
        return "[" + ", ".join(inner() for _ in range(rng.randint(0, 3))) + "]"
    if pick < 0.89:
        return "{" + ", ".join(f"{literal(rng.choice('kab'))}: {inner()}" for _ in range(rng.randint(0, 3))) + "}"
    if pick < 0.93:
        return f"({inner()} if {inner()} else {inner()})"
    if pick < 0.96:
        return f"not {inner()}"
    return f"-{inner()}"


def block(rng, depth):
    pick = rng.random()
    space = lambda: rng.choice(["", " ", "\n", "\n  ", "t ", "\t"])  # noqa: E731
    opening, closing = (lambda: rng.choice(["{%", "{%", "{%-", "{%+"])), (lambda: rng.choice(["%}", "%}", "-%}", "+%}"]))
    tag = lambda text: f"{space()}{opening()} {text} {closing()}{space()}"  # noqa: E731
    body = lambda: "".join(block(rng, depth - 1) for _ in range(rng.randint(1, 2)))  # noqa: E731
    if depth <= 0 or pick < 0.4:
        return space() + rng.choice(["{{", "{{-"]) + " " + expression(rng, 3) + " " + rng.choice(["}}", "-}}"]) + space()
    if pick < 0.55:
        return tag(f"if {expression(rng, 2)}") + body() + rng.choice(["", tag("else") + body()]) + tag("endif")
    if pick < 0.7:
        items = rng.choice(["[1, 2, 3]", "'abé'", "messages", "range(4)", "{'k': 1, 'j': 2}", expression(rng, 2)])
        more = rng.choice(["", "", " if x is odd", " if not loop"])
        inside = body() + rng.choice(["", "{{ loop.index }}{{ loop.last }}", tag("if loop.first") + tag("continue") + tag("endif")])
        return tag(f"for x in {items}{more}") + inside + rng.choice(["", tag("else") + "none"]) + tag("endfor")
    if pick < 0.8:
        return tag(f"set {rng.choice(['x', 'y', 'ns'])} = {expression(rng, 3)}")
    if pick < 0.85:
        return tag("set y") + body() + tag("endset") + "{{ y }}"
    if pick < 0.9:
        return tag("set ns = namespace(v=1)") + tag(f"set ns.v = {expression(rng, 2)}") + "{{ ns.v }}"
    if pick < 0.95:
        return tag("macro m(x, y=2)") + body() + tag("endmacro") + "{{ m(" + expression(rng, 2) + ") }}"
    return rng.choice(["{#  note #}\n", "{#- n -#} ", tag("filter upper") + "q" + tag("endfilter"), "{% raw %} {{ }} {% endraw %}"])


def main():
    warnings.simplefilter("ignore")  # Python warns about what the random expressions do
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    messages = [{"role": "user", "content": " Hello\n"}, {"role": "assistant", "content": "a</think>b"}]
    cases = []
    for _ in range(count):
        source = "".join(block(rng, 2) for _ in range(rng.randint(1, 2)))
        cases.append({"template": source, "messages": messages})
    for case in cases:
        case["expect"] = jinja_reference.render(case["template"], case)
    with tempfile.TemporaryDirectory() as folder:
        given, results = pathlib.Path(folder) / "cases.json", pathlib.Path(folder) / "results.json"
        given.write_text(json.dumps(cases))
        subprocess.run([program, "--gtest_filter=ChatTemplateDriver.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "GALE_JINJA_CASES": str(given), "GALE_JINJA_RESULTS": str(results)})
        outcomes = json.loads(results.read_text())
    different = errors = 0
    for case, outcome in zip(cases, outcomes):
        expect = case["expect"]
        errors += expect is None
        if outcome["ok"] == (expect is not None) and (expect is None or outcome["text"] == expect):
            continue
        if expect is not None and (" at 0x" in expect or "<function" in expect):
            continue  # addresses in the text of functions and generators
        different += 1
        if different <= 30:
            print("template:", repr(case["template"]))
            print("  jinja2:", repr(expect), case.get("reference_error", ""))
            print("  gale:  ", repr(outcome["text"]) if outcome["ok"] else outcome["message"])
    print(f"{count} templates, {errors} of them errors in jinja2, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
