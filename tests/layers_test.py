#!/usr/bin/env python3
"""Checks the shape of the source tree: includes go down the rooms only, every file says what it is for, none grows too long."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What each room may include besides itself (docs/architecture.md). "exec" are the contracts in src/exec/ itself.
MAY_INCLUDE = {
    'base': set(),
    'format': {'base'},
    'text': {'base'},
    'model': {'base', 'format'},
    'exec': {'base', 'format', 'model'},
    'exec/reference': {'base', 'format', 'model', 'exec'},
    'exec/cpu': {'base', 'format', 'model', 'exec'},
    'engine': {'base', 'format', 'text', 'model', 'exec', 'exec/cpu', 'exec/reference'},
    'cli': {'base', 'format', 'text', 'model', 'exec', 'exec/cpu', 'exec/reference', 'engine'},
}
# Libraries from outside, and where they are kept.
LIBRARY_HOMES = {'nlohmann': {'.cc'}, 'fmt': {'.cc', '.h'}, 'histedit.h': {'.cc'},
                 'utf8proc.h': {'.cc'}, 'pcre2.h': {'.cc'}}

MOST_LINES = 500
MOST_KERNEL_LINES = 900  # src/exec/cpu
CHECKED_FOLDERS = ('src', 'tests', 'bench', 'tools')
CODE = {'.cc', '.h', '.py'}
# Folders of the machine on which somebody happens to work. (Spelled so that this file does not hold them.)
HOST_PATH = re.compile(r'(?<![\w.}$)/-])/(?:%s)/' % '|'.join(['work', 'tmp', 'opt', 'root', 'home']))
GENERATED = re.compile(r'unicode_table\.cc$')


def room_of(parts):
    """Room of a path below src/, given as its folder names: ('exec', 'cpu') -> 'exec/cpu'."""
    return '/'.join(parts)


def check_includes(path, text, source):
    room = room_of(path.relative_to(source).parts[:-1])
    if room not in MAY_INCLUDE:
        yield f'{path}: src/{room} is not a known room; add it to tests/layers_test.py'
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not found:
            continue
        quote, target = found.groups()
        if quote == '<':
            homes = LIBRARY_HOMES.get(target.split('/')[0])
            if homes is not None and path.suffix not in homes:
                yield f'{path}:{number}: <{target}> may be included in {" ".join(sorted(homes))} only'
            continue
        if not (source / target).is_file():
            yield f'{path}:{number}: "{target}" is not a path from src/'
            continue
        other = room_of(target.split('/')[:-1])
        if other != room and other not in MAY_INCLUDE[room]:
            yield f'{path}:{number}: {room} may not include "{target}": it may use {sorted(MAY_INCLUDE[room])}'


def purpose(path, text):
    """The comment or docstring at the top of a file."""
    if path.suffix == '.py':
        text = re.sub(r'\A#![^\n]*\n', '', text)
        found = re.match(r'\s*(?:#[^\n]*\n)*\s*(?:\'\'\'|""")(.*?)(?:\'\'\'|""")', text, re.S)
        return found.group(1) if found else ''
    lines = []
    for line in text.splitlines():
        if not line.startswith('//'):
            break
        lines.append(line[2:].strip())
    return ' '.join(lines)


def check_file(path, text, root):
    top = purpose(path, text)
    # The oracle's data and its package marker have their own page.
    if not re.search(r'\w+\W+\w+.*[.:]', top, re.S) and path.name != '__init__.py':
        yield f'{path}: does not start with a sentence in a comment that says what the file is for'
    is_kernel = path.relative_to(root).parts[:3] == ('src', 'exec', 'cpu')
    most = MOST_KERNEL_LINES if is_kernel else MOST_LINES
    lines = text.count('\n')
    if lines > most and not GENERATED.search(path.name):
        yield f'{path}: {lines} lines; at most {most}: split it by purpose'
    for number, line in enumerate(text.splitlines(), 1):
        if HOST_PATH.search(line):
            yield f'{path}:{number}: names a folder of one machine: {line.strip()}'


def check_tree(root):
    problems = []
    for folder in CHECKED_FOLDERS:
        for path in sorted((root / folder).rglob('*')):
            if path.suffix not in CODE or not path.is_file():
                continue
            text = path.read_text(encoding='utf-8')
            problems += check_file(path, text, root)
            if folder == 'src':
                problems += check_includes(path, text, root / 'src')
    return problems


def self_test():
    """Plants violations in a small tree: each must be found, and the clean tree must pass."""
    clean = {
        'src/base/a.h': '// Numbers for the rooms above.\n#pragma once\n#include <vector>\n',
        'src/model/b.h': '// A model of them.\n#include "base/a.h"\n#include "model/b.h"\n',
        'src/exec/pass.h': '// One pass of it.\n#include "model/b.h"\n',
        'src/exec/cpu/c.cc': '// Does the pass.\n#include "exec/pass.h"\n' + '\n' * 700,
        'src/engine/d.cc': '// Runs the passes.\n#include "exec/pass.h"\n#include <nlohmann/json.hpp>\n',
        'tests/t.py': '#!/usr/bin/env python3\n"""Tests of the rest."""\n',
    }
    host = '/'.join(['', 'home', 'someone', ''])
    planted = {
        'upward': ('src/base/bad.h', '// Goes up the rooms.\n#include "model/b.h"\n'),
        'sideways': ('src/exec/reference/bad.cc', '// Looks at the neighbour.\n#include "exec/cpu/c.cc"\n'),
        'spaced': ('src/base/bad.h', '// Goes up the rooms.\n  #  include "model/b.h"\n'),
        'relative': ('src/model/bad.h', '// Not from the root.\n#include "b.h"\n'),
        'unknown room': ('src/helpers/bad.h', '// A new room without a place.\n'),
        'library in header': ('src/engine/bad.h', '// Drags a library along.\n#include <nlohmann/json.hpp>\n'),
        'no purpose': ('src/base/bad.cc', '#include "base/a.h"\n'),
        'one word': ('src/base/bad.cc', '// Things\n'),
        'no docstring': ('tests/bad.py', 'import sys\n'),
        'long': ('src/base/bad.cc', '// A very long file.\n' + '\n' * 500),
        'long kernel': ('src/exec/cpu/bad.cc', '// A very long kernel.\n' + '\n' * 900),
        'host path': ('tests/bad.cc', f'// Reads from one machine.\nconst char* path = "{host}x";\n'),
    }
    failures = []
    for name, extra in [('clean', None), *planted.items()]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for relative, text in [*clean.items(), *([extra] if extra else [])]:
                (root / relative).parent.mkdir(parents=True, exist_ok=True)
                (root / relative).write_text(text, encoding='utf-8')
            problems = check_tree(root)
            if len(problems) != (1 if extra else 0):
                failures.append(f'self-test "{name}": {len(problems)} problems found: {problems}')
    return failures


def main():
    problems = self_test() + check_tree(ROOT)
    for problem in problems:
        print(problem.replace(f'{ROOT}/', ''))
    print(f'{len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
