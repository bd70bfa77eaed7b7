"""jinja2 set up as transformers sets it up for chat templates: the oracle of Gale's interpreter."""
import copy
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_run")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment(now=0):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(now).strftime(form)
    return env


def render(source, case):
    """The rendered text, or None when jinja2 reports an error."""
    try:
        template = environment(case.get("now", 0)).from_string(source)
        tokens = {"bos_token": case.get("bos_token", "<s>"), "eos_token": case.get("eos_token", "</s>")}
        given = copy.deepcopy({key: case.get(key) for key in ("messages", "tools", "documents", "variables")})
        variables = given.pop("variables") or {}
        given["messages"] = given["messages"] or []
        return template.render(**given, **{**tokens, **variables},
                               add_generation_prompt=case.get("add_generation_prompt", True))
    except Exception as error:  # noqa: BLE001 - any failure of the reference is "an error" to compare
        case["reference_error"] = f"{type(error).__name__}: {error}"
        return None
