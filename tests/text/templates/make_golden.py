"""Writes golden.json and language.json: what jinja2 renders for the templates and snippets of this folder.

    python3 tests/text/templates/make_golden.py        # needs jinja2 3.1

golden.json: template -> conversation (of conversations.json) -> text, or null where jinja2 reports an error.
"""
import json
import pathlib
import sys

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here.parent.parent / "peers"))
import jinja_reference  # noqa: E402

NOW = 1721044800  # 15 July 2024, noon UTC
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What is 2+2?\n"}]


def language_case(source):
    case = {"template": source, "messages": MESSAGES, "now": NOW}
    text = jinja_reference.render(source, case)
    case.pop("reference_error", None)
    if text is None:
        case["error"] = True
    else:
        case["expect"] = text
    return case


def main():
    conversations = json.loads((here / "conversations.json").read_text())
    golden, refused = {}, 0
    for path in sorted(here.glob("*.jinja")):
        golden[path.name] = {}
        for conversation in conversations:
            case = {**conversation, "now": NOW}
            golden[path.name][conversation["name"]] = jinja_reference.render(path.read_text(), case)
            if "reference_error" in case:
                refused += 1
                if "-v" in sys.argv:
                    print(f"{path.name}, {conversation['name']}: {case['reference_error']}")
    (here / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(golden)} templates, {len(conversations)} conversations, {refused} refused")
    language = [language_case(line) for line in (here / "snippets.txt").read_text().split("\n") if line]
    language += [language_case(source) for source in (here / "layouts.txt").read_text().split("\n====\n")]
    (here / "language.json").write_text(json.dumps(language, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
