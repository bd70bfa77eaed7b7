"""Compares gale's tokens with those of other programs, on the vocabularies of real models. Run by hand:

    python3 tests/peers/tokenizer_peer.py MODEL.gguf BUILD/tests/test_text [--pre NAME] [--random 10000] [--seed 1]
    python3 tests/peers/tokenizer_peer.py NAME|all BUILD/tests/test_text [--random 10000] [--seed 1]

With a model file: asks llama.cpp (package llama_cpp) for the tokens of many texts, with and without special tokens.
--pre NAME: first writes a copy of the vocabulary that names another pre-tokenizer. With the name of a vocabulary from a
package (tokenizer_references.py lists them): asks that package's own library, or the one it is made for.
The texts: prose in many languages, code, JSON, emoji, runs of spaces, control characters, broken UTF-8, random strings
from awkward corners of Unicode. The test program compares.
"""
import argparse
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import tokenizer_references
from tokenizer_texts import CODE, EMOJI, PROSE, SPECIAL, beyond_unicode, every_character, has_surrogates, repaired, standard_texts

# What a case asks for (tests/text/tokenizer_peer_test.cc).
SPECIAL_FLAG, BOS_FLAG, EXACT_FLAG, ONE_WAY_FLAG = 1, 2, 4, 8


class Peer:
    """llama.cpp's tokenizer of a model file."""

    def __init__(self, path):
        global llama_cpp
        import llama_cpp
        self.silent = llama_cpp.llama_log_callback(lambda *a: None)
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f'llama.cpp cannot load {path}')
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def tokens(self, text, special, bos):
        room = len(text) + 16
        out = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self.vocab, text, len(text), out, room, bos, special)
        assert n >= 0, n
        return list(out[:n])

    def end_tokens(self):
        return [i for i in range(llama_cpp.llama_vocab_n_tokens(self.vocab)) if llama_cpp.llama_vocab_is_eog(self.vocab, i)]


def with_pre(path, name, out):
    """A copy of the metadata only, with another tokenizer.ggml.pre."""
    with open(path, 'rb') as f:
        data = f.read(64 << 20)
    _, version, _, keys = struct.unpack_from('<4sIQQ', data)
    at, body = 24, []
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def value_end(kind, at):
        if kind in sizes:
            return at + sizes[kind]
        if kind == 8:
            return at + 8 + struct.unpack_from('<Q', data, at)[0]
        inner, n = struct.unpack_from('<IQ', data, at)
        at += 12
        if inner in sizes:
            return at + n * sizes[inner]
        for _ in range(n):
            at = value_end(inner, at)
        return at

    for _ in range(keys):
        start = at
        n = struct.unpack_from('<Q', data, at)[0]
        key = data[at + 8:at + 8 + n]
        kind = struct.unpack_from('<I', data, at + 8 + n)[0]
        at = value_end(kind, at + 12 + n)
        if key == b'tokenizer.ggml.pre':
            body.append(data[start:start + 12 + n] + struct.pack('<Q', len(name)) + name.encode())
        else:
            body.append(data[start:at])
    with open(out, 'wb') as f:
        f.write(struct.pack('<4sIQQ', b'GGUF', version, 0, keys) + b''.join(body) + bytes(64))


def write_golden(peer, path):
    cases = []
    for text in PROSE + CODE + EMOJI + SPECIAL:
        if '▁' in text or '</s>' in text:  # no round trip; known difference
            continue
        for special in ([False, True] if text in SPECIAL else [False]):
            cases.append(dict(text=text, special=special, ids=peer.tokens(text.encode(), special, False)))
    with open(path, 'w', encoding='utf-8') as f:
        f.write('[\n' + ',\n'.join(json.dumps(c, ensure_ascii=False) for c in cases) + '\n]\n')


def write_case(out, flags, text, ids, back):
    """One case: what to encode and how, the tokens, and the text that decoding them must give (None: not looked at)."""
    if back is None:
        flags, back = flags | ONE_WAY_FLAG, b''
    out.write(struct.pack('<II', flags, len(text)) + text + struct.pack(f'<I{len(ids)}i', len(ids), *ids))
    out.write(struct.pack('<I', len(back)) + back)


def write_path(out, path):
    out.write(struct.pack('<I', len(path.encode())) + path.encode())


def compare(program, cases):
    return subprocess.call([program, '--gtest_filter=TokenizerPeer.*'], env=os.environ | {'GALE_TOKENIZER_CASES': cases})


def compare_file(a, folder):
    """With llama.cpp on a model file."""
    model = os.path.abspath(a.model)
    if a.pre:
        model = os.path.join(folder, 'pre.gguf')
        with_pre(a.model, a.pre, model)
    peer = Peer(model)
    composes = a.pre in ('qwen2', 'qwen35')  # as Qwen's own tokenizer; llama.cpp leaves text as it is
    print('end tokens of llama.cpp:', peer.end_tokens())
    if a.golden:
        write_golden(peer, a.golden)
        return 0
    texts = standard_texts(random.Random(a.seed), min(a.size, a.longest * 16), a.random)
    cases = os.path.join(folder, 'cases')
    with open(cases, 'wb') as f:
        write_path(f, model)
        for t in texts:
            if len(t) > a.longest or beyond_unicode(t):
                continue
            composed = unicodedata.normalize('NFC', repaired(t))
            if composes and composed != repaired(t):
                if has_surrogates(composed):
                    continue
                t = composed.encode()
            for flags in (0, SPECIAL_FLAG, BOS_FLAG):
                if not flags & SPECIAL_FLAG:
                    # llama.cpp takes Gemma's user-defined </s> (the HTML tag) for an end token and does not find it in
                    # plain text; gale does, as the model's own tokenizer.
                    t = t.replace(b'</s>', b'</b>')
                write_case(f, flags, t, peer.tokens(t, bool(flags & SPECIAL_FLAG), bool(flags & BOS_FLAG)), t)
    return compare(a.program, cases)


def compare_package(a, name, folder):
    """With the library that the vocabulary of a package belongs to."""
    reference = tokenizer_references.open_reference(name, folder)
    texts = every_character() if a.characters else standard_texts(random.Random(a.seed), a.size, a.random)
    for text, expected in tokenizer_references.KNOWN.get(name, []):
        _, ids, _ = next(reference.cases(text, False))
        assert expected in (None, ids, len(ids)), (text[:20], ids[:20], len(ids))
        texts.append(text)
    cases = os.path.join(folder, f'cases-{name}')
    count = 0
    with open(cases, 'wb') as f:
        write_path(f, reference.path)
        for t in texts:
            for special in (False, True):
                for seen, ids, back in reference.cases(t, special):
                    write_case(f, EXACT_FLAG | (SPECIAL_FLAG if special else 0), seen, ids, back)
                    count += 1
    print(f'{name}: {count} cases of {reference.library}, {reference.speed():.1f} MB/s there', flush=True)
    status = compare(a.program, cases)
    os.remove(cases)
    return status


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('model', help='a GGUF file, the name of a vocabulary, or "all"')
    p.add_argument('program')
    p.add_argument('--pre')
    p.add_argument('--random', type=int, default=10000)
    p.add_argument('--size', type=int, default=1 << 20)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--golden', help='only write the tokens of the fixed texts to this JSON file (for tests/text/golden)')
    p.add_argument('--characters', action='store_true', help='instead of all that: every character in a few places')
    p.add_argument('--longest', type=int, default=1 << 20, help='leave longer texts out: some rules of llama.cpp overflow its stack')
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if os.path.exists(a.model):
            sys.exit(compare_file(a, folder))
        names = list(tokenizer_references.REFERENCES) if a.model == 'all' else [a.model]
        sys.exit(max(compare_package(a, name, folder) for name in names))


if __name__ == '__main__':
    main()
