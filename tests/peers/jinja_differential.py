"""Random small templates over a conversation with tools, rendered by jinja2 and by Gale; prints what differs:

    PYTHON_WITH_JINJA2 tests/peers/jinja_differential.py BUILD/tests/test_text [COUNT] [SEED]

Most expressions are typed, so that most templates render; some are not, to compare where errors arise.
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

WORDS = ["a", "b c", "  x ", "A-b", "é", "it's", 'say "q"', "", "<|t|>", "1", "-3.5", "l1\nl2\n", "日本", "Zz", "a,b,,c",
         "x\ty", "<b>&amp;", "aXbXc", "ß", "{}", "%s", "42", "0x1f", "k", "user"]
NAMES = ["x", "y", "messages", "tools", "bos_token", "ns", "nope", "loop", "documents", "flag", "n", "caller", "data"]
FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "join('-')", "default('d')", "d('e', true)", "first",
           "last", "replace('a', 'bb')", "tojson", "tojson(indent=2)", "string", "int", "float", "list", "unique|list",
           "reverse|list", "sort", "dictsort", "items|list", "indent", "e", "round", "abs", "sum", "min", "max",
           "wordcount", "map('upper')|list", "map(attribute='role')|list", "select('string')|list", "reject('none')|list",
           "selectattr('role', 'eq', 'user')|list", "batch(2)|list", "center(9)", "truncate(5)", "count", "safe",
           "forceescape", "slice(2)|list", "groupby('role')|list", "filesizeformat", "urlencode", "xmlattr", "attr('x')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable",
         "sequence", "true", "false", "odd", "even", "divisibleby(2)", "eq(1)", "in([1, 'a'])", "lower", "upper", "callable",
         "escaped", "sameas(none)", "ne 1", "gt(2)", "filter", "test"]
METHODS = ["strip()", "split()", "split('a')", "rsplit(' ', 1)", "startswith('a')", "endswith('c')", "replace('b', '')",
           "upper()", "title()", "find('b')", "count('a')", "splitlines()", "join(['p', 'q'])", "lstrip('a')", "items()",
           "keys()", "get('k')", "index('a')", "isdigit()", "partition('b')", "zfill(5)", "format(1)", "swapcase()",
           "capitalize()", "rfind('a')", "isupper()", "islower()", "center(4)"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in", "**"]

MESSAGES = [
    {"role": "system", "content": "Be <brief>."},
    {"role": "user", "content": " Hello\n", "name": "Ann"},
    {"role": "assistant", "content": "a</think>b", "reasoning_content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"k": [1, 2.5, "é"], "b": None}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "t & u"}], "tool_call_id": "c1"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d'é", "parameters": {
    "type": "object", "properties": {"k": {"type": "array"}, "b": {"type": ["string", "null"], "enum": []}},
    "required": ["k"]}}}]
VARIABLES = {"flag": True, "n": 3, "ratio": 0.1, "data": {"k": "v", "list": [3, 1, 2], "deep": {"a": {"b": None}}, "z": 1e21}}
DOCUMENTS = [{"title": "T", "text": "one two"}, {"title": "S", "text": "three"}]


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


class Generator:
    """Expressions of a wanted type (s: text, i: integer, f: float, l: list, d: dict, b: condition, a: any)."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, *choices):
        choice = self.rng.choice(choices)
        return choice() if callable(choice) else choice

    def text(self, depth):
        rng, s, i, l, a = self.rng, self.text, self.integer, self.list, self.any
        if depth <= 0:
            return self.pick(lambda: literal(rng.choice(WORDS)), lambda: literal(rng.choice(WORDS)), "messages[0].content",
                             "messages[1]['content']", "messages[-1].role", "bos_token", "data.k", "messages[1].name")
        d = depth - 1
        return self.pick(
            lambda: f"{s(d)} + {s(d)}", lambda: f"{a(d)} ~ {a(d)}", lambda: f"({s(d)})|{self.text_filter(d)}",
            lambda: f"({s(d)})|{self.text_filter(d)}", lambda: f"({s(d)}).{self.text_method(d)}",
            lambda: f"({s(d)}).{self.text_method(d)}", lambda: f"({s(d)})[{self.slice(d)}]", lambda: f"({s(d)} if {self.condition(d)} else {s(d)})",
            lambda: f"{s(d)} * {rng.randint(-1, 3)}", lambda: f"({l(d)})|join({s(d)})", lambda: f"({literal(rng.choice(WORDS))}).join(({l(d)})|map('string'))",
            lambda: f"({a(d)})|tojson{self.json_options()}", lambda: f"({a(d)})|string", lambda: f"'{self.percent()}' % ({a(d)}, {i(d)}, {self.number(d)})",
            lambda: f"'{self.braces()}'.format({a(d)}, {i(d)}, k={s(d)})", lambda: f"({a(d)})|default({s(d)}{rng.choice(['', ', true'])})|string",
            lambda: f"({l(d)})|map('string')|{rng.choice(['first', 'last', 'min', 'max', 'join'])}|default('-')|string",
            lambda: f"({s(d)}).split({literal(rng.choice('aX, '))})[{rng.choice(['0', '-1'])}]",
            lambda: f"({i(d)})|filesizeformat{rng.choice(['', '(true)'])}", lambda: f"({self.dict(d)})|xmlattr",
            lambda: f"'%s|%s'|format({a(d)}, {s(d)})", lambda: f"cycler({s(d)}, {s(d)}).next()",
            "strftime_now('%d %b %Y, %H:%M%%')", lambda: f"({self.dict(d)}).get({literal(rng.choice('kabZ'))}, {a(d)})|string",
            lambda: f"({s(d)}).{rng.choice(['format_map', 'translate'])}({{}})" if rng.random() < 0.05 else f"({s(d)})|attr('upper')()")

    def text_filter(self, d):
        rng = self.rng
        return self.pick("trim", "upper", "lower", "title", "capitalize", "e", "safe", "forceescape", "reverse", "string", "urlencode",
                         lambda: f"replace({literal(rng.choice('abX'))}, {self.text(d)}{rng.choice(['', ', 1'])})", "indent", "indent(2, true)",
                         "indent('>', blank=true)", lambda: f"truncate({rng.randint(3, 9)}{rng.choice(['', ', true', ', false, %s' % literal('..'), ', true, %s, 0' % literal('')])})",
                         lambda: f"center({rng.randint(0, 12)})", "trim('x ')", "escape", "d('e')", "default('q', true)")

    def text_method(self, d):
        rng, s = self.rng, self.text
        return self.pick("strip()", "lstrip()", "rstrip()", "strip(' x')", "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()",
                         lambda: f"replace({literal(rng.choice(['a', 'b', '', 'X']))}, {s(d)}{rng.choice(['', ', 1'])})", lambda: f"center({rng.randint(0, 9)}{rng.choice(['', ', %s' % literal('*')])})",
                         "zfill(5)", "ljust(4, '.')", "rjust(4)", "removeprefix('a')", "removesuffix('c')", "expandtabs(4)", "expandtabs()", "format()", "__str__()"
                         if rng.random() < 0.02 else "strip()")

    def json_options(self):
        return self.pick("", "", "", "(indent=2)", "(indent=4, ensure_ascii=True)", "(sort_keys=true)", "(separators=(',', ':'))", "(indent='\\t')", "(ensure_ascii=true)",
                         "(True, 1)", "(indent=0)", "(separators=['; ', '='], indent=1)")

    def percent(self):
        return "".join(self.rng.choice([form]) for form in (
            self.rng.choice(["%s", "%r", "%10s", "%-6s|", "%.3s", "%a"]), self.rng.choice(["%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%i", "%s", "%%%d", "%c" if self.rng.random() < 0.02 else "%d"]),
            self.rng.choice(["%f", "%.2f", "%e", "%g", "%8.3f", "%s", "%+.1f", "%G", "%.0f"])))

    def braces(self):
        return self.rng.choice(["{}|{:d}|{k}", "{0}{1}{k!r}", "{:>3}".replace(":>3", "") + "{:>6}|{k:<5}|", "{1:05d}{k:^7}{0!s}", "{0!r:>4}{1:+}{k}", "{{}}{}{:,}{k:*^9}",
                                "{k}{1:x}{1:#x}{1:b}", "{!a}{:{}}" if self.rng.random() < 0.1 else "{!a}{:3}{k}", "{k:.2}{0!s:.3}{1:e}", "{1:{1}}|{k}", "{1:.1f}{1:%}"])

    def integer(self, depth):
        rng, s, i, l = self.rng, self.text, self.integer, self.list
        if depth <= 0:
            return self.pick(lambda: str(rng.randint(-3, 12)), "n", "messages|length")
        d = depth - 1
        return self.pick(lambda: f"{i(d)} {rng.choice('+-*')} {i(d)}", lambda: f"({i(d)}) {rng.choice(['//', '%'])} {rng.choice([2, 3, -2])}", lambda: f"({s(d)})|length", lambda: f"({l(d)})|count",
                         lambda: f"({s(d)})|int", lambda: f"({s(d)})|int({i(d)})", lambda: f"-({i(d)})", lambda: f"({i(d)})|abs", lambda: f"({s(d)}).{rng.choice(['find', 'rfind', 'count'])}({literal(rng.choice('abX'))})",
                         lambda: f"({self.number(d)})|round|int", lambda: f"({s(d)})|wordcount", lambda: f"[{i(d)}, {i(d)}]|{rng.choice(['sum', 'min', 'max', 'first', 'last'])}", lambda: f"2 ** {rng.randint(0, 5)}",
                         lambda: f"({self.dict(d)})|length", lambda: f"({l(d)}).count({self.any(0)})", lambda: f"({self.number(d)})|int", lambda: f"({i(d)} if {self.condition(d)} else {i(d)})", lambda: f"range({rng.randint(0, 9)}, {rng.randint(0, 9)}, {rng.choice([1, 2, -1])})|list|length")

    def number(self, depth):
        rng = self.rng
        if depth <= 0:
            return self.pick("1.5", "0.25", "2.0", "-0.5", "1e3", "2.675", "ratio", "1e-7", "1e16", "123456789.0", "0.0")
        d = depth - 1
        return self.pick(lambda: self.integer(depth), lambda: f"({self.integer(d)}) / {rng.choice([2, 3, 7])}", lambda: f"({self.number(d)}) {rng.choice(['+', '-', '*'])} {self.number(d)}",
                         lambda: f"({self.number(d)})|round({rng.randint(-1, 3)}{rng.choice(['', ', %s' % literal('floor'), ', %s' % literal('ceil')])})", lambda: f"({self.text(d)})|float", lambda: f"({self.number(d)})|abs",
                         lambda: f"({self.integer(d)})|float", lambda: f"({self.number(d)}) {rng.choice(['//', '%'])} {rng.choice(['0.3', '2', '-1.5'])}")

    def list(self, depth):
        rng, s, i, l, a = self.rng, self.text, self.integer, self.list, self.any
        if depth <= 0:
            return self.pick("messages", "[]", "[1, 2, 3]", "['b', 'A', 'c']", "tools", "documents", "data.list", "(1, 'x')", "range(4)", "messages[2].tool_calls")
        d = depth - 1
        return self.pick(
            lambda: "[" + ", ".join(a(d) for _ in range(rng.randint(0, 3))) + "]", lambda: f"[{i(d)}, {i(d)}, {i(d)}]", lambda: f"[{s(d)}, {s(d)}]",
            lambda: f"({l(d)})[{self.slice(d)}]", lambda: f"({s(d)}).{rng.choice(['split()', 'split(%s)' % literal(','), 'rsplit(%s, 1)' % literal('a'), 'splitlines()', 'splitlines(true)', 'partition(%s)' % literal('X'), 'split(none, 1)', 'rpartition(%s)' % literal('b')])}",
            lambda: f"({l(d)})|{rng.choice(['list', 'reverse|list', 'batch(2)|list', 'batch(2, %s)|list' % literal('-'), 'slice(2)|list', 'slice(3, 0)|list', 'select|list', 'reject|list', 'unique|list', 'map(%s)|list' % literal('string'), 'map(%s)|unique|list' % literal('string'), 'select(%s)|list' % literal('string'), 'reject(%s)|list' % literal('mapping'), 'map(%s)|list' % literal('tojson')])}",
            lambda: f"({rng.choice(['messages', 'documents', 'tools'])})|{rng.choice(['map(attribute=%s)|list' % literal('role'), 'map(attribute=%s, default=%s)|list' % (literal('name'), literal('?')), 'selectattr(%s, %s, %s)|list' % (literal('role'), literal('eq'), literal('user')), 'selectattr(%s)|list' % literal('name'), 'rejectattr(%s, %s)|list' % (literal('tool_calls'), literal('defined')), 'groupby(%s)|list' % literal('role'), 'sort(attribute=%s)' % literal('title'), 'map(attribute=%s)|list' % literal('function.name'), 'map(%s, %s)|list' % (literal('attr'), literal('x')), 'groupby(%s, default=%s)|map(%s)|list' % (literal('name'), literal('z'), literal('first'))])}",
            lambda: f"[{i(d)}, {i(d)}, {i(d)}]|sort{rng.choice(['', '(reverse=true)', '(true)'])}", lambda: f"[{s(d)}, {s(d)}, {s(d)}]|{rng.choice(['sort', 'sort(case_sensitive=true)', 'unique|list', 'unique(true)|list', 'map(%s)|list' % literal('upper'), 'map(%s)|list' % literal('length')])}",
            lambda: f"({self.dict(d)}){rng.choice(['|list', '.items()|list', '.keys()|list', '.values()|list', '|items|list', '|dictsort', '|dictsort(by=%s)|list|length * [0]' % literal('key'), '.items()', '.keys()'])}",
            lambda: f"{l(d)} + {l(d)}", lambda: f"({l(d)}) * {rng.randint(0, 2)}", lambda: f"({s(d)})|list", lambda: f"({l(d)} if {self.condition(d)} else {l(d)})", lambda: f"({a(d)},)", lambda: f"range({rng.randint(-2, 5)})")

    def dict(self, depth):
        rng = self.rng
        if depth <= 0:
            return self.pick("{}", "{'k': 1, 'a': 'b'}", "messages[0]", "data", "data.deep", "tools[0].function", "messages[2].tool_calls[0].function.arguments", "messages[1]")
        d = depth - 1
        return self.pick(lambda: "{" + ", ".join(f"{literal(rng.choice('kabZ'))}: {self.any(d)}" for _ in range(rng.randint(0, 3))) + "}", lambda: f"dict(k={self.any(d)}, b={self.any(d)})",
                         lambda: f"dict([({self.text(d)}, {self.any(d)})])", lambda: f"dict({self.dict(d)}, z={self.any(d)})", lambda: f"({self.dict(d)}).copy()", lambda: f"{{{self.integer(d)}: {self.any(d)}}}",
                         lambda: f"({self.dict(d)} if {self.condition(d)} else {self.dict(d)})")

    def condition(self, depth):
        rng, s, i, l, a = self.rng, self.text, self.integer, self.list, self.any
        if depth <= 0:
            return self.pick("true", "false", "flag", "messages", "nope", "nope is defined", "loop is defined", "x is defined", "add_generation_prompt")
        d = depth - 1
        return self.pick(lambda: f"{i(d)} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {i(d)}", lambda: f"{s(d)} {rng.choice(['<', '==', '!=', 'in', 'not in'])} {s(d)}", lambda: f"{a(d)} in {l(d)}", lambda: f"{s(d)} in {self.dict(d)}",
                         lambda: f"not {self.condition(d)}", lambda: f"{self.condition(d)} {rng.choice(['and', 'or'])} {self.condition(d)}", lambda: f"{a(d)} is {rng.choice(['', 'not '])}{rng.choice(['defined', 'none', 'string', 'mapping', 'iterable', 'sequence', 'number', 'boolean', 'true', 'integer', 'float', 'escaped', 'callable', 'undefined'])}",
                         lambda: f"{i(d)} is {rng.choice(['odd', 'even', 'divisibleby 3', 'eq 1', 'gt(2)', 'in [1, 2]', 'lessthan 4'])}", lambda: f"({s(d)}).{rng.choice(['startswith(%s)' % literal('a'), 'endswith((%s, %s))' % (literal('c'), literal('b')), 'isdigit()', 'isupper()', 'islower()', 'isalpha()', 'isalnum()', 'isspace()', 'istitle()', 'isascii()', 'isidentifier()'])}",
                         lambda: f"({s(d)}) is {rng.choice(['lower', 'upper', 'eq(%s)' % literal('a')])}", lambda: f"{i(0)} < {i(0)} <= {i(0)}", lambda: f"{a(d)} == {a(d)}", lambda: f"({l(d)})|length > {rng.randint(0, 3)}")

    def slice(self, d):
        return self.rng.choice(["0", "-1", "1:", ":2", "::-1", "0:1", ":-1", "1:9:2", "-2:", "2:0:-1", ":", "::2", "5:", "-9:9"])

    def any(self, depth):
        if depth > 0 and self.rng.random() < 0.03:
            return "(" + self.untyped(depth) + ")"
        if self.rng.random() < 0.06:
            return self.rng.choice(["none", "nope", "x", "y", "true", "false", "data.nope", "messages[0].nope", "ns"])
        return self.rng.choice([self.text, self.text, self.integer, self.number, self.list, self.dict, self.condition])(depth)

    def untyped(self, depth):
        rng = self.rng
        pick = rng.random()
        if depth <= 0 or pick < 0.22:
            return rng.choice([literal(rng.choice(WORDS)), str(rng.randint(-3, 12)), rng.choice(["1.5", "0.25", "2.0"]),
                               rng.choice(NAMES), "true", "false", "none", "[]", "{}", "messages[0].content"])
        inner = lambda: self.untyped(depth - 1)  # noqa: E731
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
        return f"not {inner()}" if pick < 0.96 else f"-{inner()}"

    def block(self, depth, in_loop=False):
        rng = self.rng
        pick = rng.random()
        space = lambda: rng.choice(["", "", " ", "\n", "\n  ", "t ", "\t"])  # noqa: E731
        opening, closing = (lambda: rng.choice(["{%", "{%", "{%-", "{%+"])), (lambda: rng.choice(["%}", "%}", "-%}", "+%}"]))
        tag = lambda text: f"{space()}{opening()} {text} {closing()}{space()}"  # noqa: E731
        body = lambda loop=in_loop: "".join(self.block(depth - 1, loop) for _ in range(rng.randint(1, 2)))  # noqa: E731
        if depth <= 0 or pick < 0.36:
            value = self.untyped(3) if rng.random() < 0.08 else self.any(rng.randint(1, 3))
            return space() + rng.choice(["{{", "{{-", "{{+" if rng.random() < 0.1 else "{{"]) + " " + value + " " + rng.choice(["}}", "-}}"]) + space()
        if pick < 0.47:
            return tag(f"if {self.condition(2)}") + body() + rng.choice(["", tag("else") + body(), tag(f"elif {self.condition(1)}") + body() + tag("else") + body()]) + tag("endif")
        if pick < 0.62:
            return self.loop(tag, body, depth)
        if pick < 0.68:
            return tag(rng.choice([f"set {rng.choice(['x', 'y', 'ns'])} = {self.any(3)}", f"set x, y = {self.any(2)}, {self.any(2)}", f"set x = {self.any(1)}, {self.any(1)}",
                                   f"set (x, y) = [{self.any(1)}, {self.any(1)}]"]))
        if pick < 0.73:
            return tag("set y" + rng.choice(["", "|upper", "|trim|replace('a', 'b')", "|length"])) + body() + tag("endset") + "{{ y }}"
        if pick < 0.74:
            return tag("set j = joiner(" + rng.choice(["", "'; '"]) + ")") + tag(f"for x in {self.list(1)}") + "{{ j() }}" + body(True) + tag("endfor")
        if pick < 0.75:
            return tag("set ns = namespace()") + tag("set ns.x" + rng.choice(["", "|upper"])) + body() + tag("endset") + "{{ ns.x }}{{ ns }}"
        if pick < 0.78:
            return tag("set ns = namespace(v=1" + rng.choice(["", ", w=[]", ", **data"]) + ")") + tag(f"for i in {self.list(1)}") + tag(f"set ns.v = {rng.choice([self.any(2), 'ns.v ~ loop.index', '[ns.v, i]'])}") + tag("endfor") + "{{ ns.v }}{{ ns.nope is defined }}"
        if pick < 0.86:
            return self.macro(tag, body)
        if pick < 0.90:
            return tag(f"with {rng.choice(['x', 'y'])} = {self.any(2)}" + rng.choice(["", f", n = {self.integer(1)}"])) + body() + tag("endwith")
        if pick < 0.93:
            return tag("filter " + rng.choice(["upper", "trim|title", "replace('a', 'b')", "indent(2)", "e"])) + body() + tag("endfilter")
        if pick < 0.95:
            return tag("generation") + body(False) + tag("endgeneration")
        return rng.choice(["{#  note #}\n", "{#- n -#} ", "{% raw %} {{ }} {% endraw %}", "  {%- raw -%} {%x {{ {%- endraw -%}  ", "{#+ x +#}\n", "\n", "{ }} %} #}"])

    def loop(self, tag, body, depth):
        rng = self.rng
        attributes = ["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "depth0", "previtem", "nextitem|default('end')"]
        if rng.random() < 0.15:
            tree = rng.choice(["[[1, [2]], 3]", "[{'c': [{'c': []}]}]", "[[], [[]]]", "['ab']"])
            return tag(f"for x in {tree} recursive") + rng.choice(["{{ loop.depth }}", "{{ loop.index }}:"]) + tag("if x is sequence and x is not string") + "{{ loop(x" + rng.choice(["", ".c" if "'c'" in tree else ""]) + ") }}" + tag("else") + body() + tag("endif") + tag("endfor")
        target = rng.choice(["x", "x", "x", "i"])
        items = rng.choice([self.list(2), self.list(1), "'abé'", "messages", "range(4)", "{'k': 1, 'j': 2}", self.text(1), self.dict(1)])
        if rng.random() < 0.2:
            target, items = "x, y", rng.choice(["data.items()", "data|dictsort", "[(1, 2), (3, 4)]", f"({self.dict(1)}).items()", "messages|groupby('role')", "['ab', 'cd']"])
        more = rng.choice(["", "", "", " if x is odd", " if not loop", " if x is string", f" if {self.condition(1)}"])
        inside = body(True) + rng.choice(["", "{{ loop.%s }}" % rng.choice(attributes), "{{ loop.cycle('p', 'q') }}", "{{ loop.changed(x) }}", "{{ '-' if not loop.last }}",
                                          tag("if loop.first") + tag("continue") + tag("endif") + "c", tag("if loop.index == 2") + tag("break") + tag("endif"), tag(f"if {self.condition(1)}") + tag(rng.choice(["break", "continue"])) + tag("endif") + "z"])
        return tag(f"for {target} in {items}{more}") + inside + rng.choice(["", "", tag("else") + "none" + body()]) + tag("endfor")

    def macro(self, tag, body):
        rng = self.rng
        head = rng.choice(["m(x, y=2)", "m()", "m(x)", "m(x='d', y=x)", "m(x, y=[], z=none)", "m(x, caller=none)"])
        uses = rng.choice(["", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}", "{{ caller is defined }}", "{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.caller }}"])
        text = tag(f"macro {head}") + body(False) + uses + tag("endmacro")
        arguments = rng.choice([self.any(2), "", f"{self.any(1)}, {self.any(1)}", f"x={self.any(1)}", f"{self.any(1)}, y={self.any(1)}", f"*[{self.any(1)}]", f"**{{'x': {self.any(1)}}}", f"{self.any(1)}, k={self.any(1)}", "1, 2, 3"])
        if rng.random() < 0.3:
            return text + tag(rng.choice(["call", "call(p)" if rng.random() < 0.3 else "call"]) + f" m({arguments})") + body(False) + tag("endcall")
        return text + rng.choice(["{{ m(ARGUMENTS) }}", "{{ m(ARGUMENTS)|upper }}", "{% set x = m(ARGUMENTS) %}{{ x|length }}{{ x }}",
                                  "{{ [1, 2]|map('string')|map('replace', '1', m(ARGUMENTS))|list }}"]).replace("ARGUMENTS", arguments)


def main():
    warnings.simplefilter("ignore")  # Python warns about what the random expressions do
    sys.setrecursionlimit(3000)
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    different = errors = limits = 0
    for batch in range(0, count, 2000):  # each batch has its own seed, so that one can be looked at alone
        generator = Generator(random.Random(seed + batch))
        cases = []
        for _ in range(min(2000, count - batch)):
            source = "".join(generator.block(2) for _ in range(generator.rng.randint(1, 2)))
            cases.append({"template": source, "messages": MESSAGES, "tools": TOOLS, "documents": DOCUMENTS, "variables": VARIABLES})
        for case, outcome in zip(cases, outcomes_of(program, cases)):
            expect = jinja_reference.render(case["template"], case)
            errors += expect is None
            if outcome["ok"] == (expect is not None) and (expect is None or outcome["text"] == expect):
                continue
            if expect is not None and (" at 0x" in expect or "<function" in expect):
                continue  # addresses in the text of functions and generators
            if not outcome["ok"] and ("fit 64 bits" in outcome["message"] or "format width above" in outcome["message"]):
                limits += 1  # Python's integers and widths have no limit
                continue
            different += 1
            if different <= 30:
                print("template:", repr(case["template"]))
                print("  jinja2:", repr(expect), case.get("reference_error", ""))
                print("  gale:  ", repr(outcome["text"]) if outcome["ok"] else outcome["message"])
    print(f"{count} templates of seed {seed}, {errors} of them errors in jinja2, {limits} beyond Gale's limits for numbers, "
          f"{different} differ")
    return 1 if different else 0


def outcomes_of(program, cases):
    with tempfile.TemporaryDirectory() as folder:
        given, results = pathlib.Path(folder) / "cases.json", pathlib.Path(folder) / "results.json"
        given.write_text(json.dumps(cases))
        subprocess.run([program, "--gtest_filter=ChatTemplateDriver.*"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "GALE_JINJA_CASES": str(given), "GALE_JINJA_RESULTS": str(results)})
        return json.loads(results.read_text())


if __name__ == "__main__":
    sys.exit(main())
