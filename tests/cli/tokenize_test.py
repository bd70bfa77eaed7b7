"""`gale tokenize`: text to tokens and back, conversations by the template; what users write is never a control token."""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import gale, main, model, oracle_models  # noqa: E402

TEMPLATE = ("{{ '[system: ' ~ tools|length ~ ' tools]' if tools }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
            "{{ m.content if m.content is string else m.content|map(attribute='text')|join }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{{ '<think>' if thinking }}{% endif %}")
TEXT = 'The quick brown fox, é 日本 😀\n\ttwo "lines"'


class Tokenize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plain = model(arch='llama', vocab=True)
        cls.model = oracle_models.Gguf(cls.plain).set_text('tokenizer.chat_template', TEMPLATE).write(cls.path('chat.gguf'))
        cls.start, cls.end = (cls.ids(t, '--special')[0] for t in ('<|im_start|>', '<|im_end|>'))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def output(cls, *words, **more):
        done = gale('tokenize', cls.model, *words, **more)
        assert (done.returncode, done.stderr) == (0, ''), done.stderr
        return done.stdout

    @classmethod
    def ids(cls, *words, **more):
        line = cls.output(*words, '--ids', **more).decode()
        assert line.endswith('\n') and line.count('\n') == 1
        return [int(i) for i in line.split(',')] if line != '\n' else []

    def fails(self, *words, says, status=1, **more):
        done = gale('tokenize', *words, **more)
        self.assertEqual((done.returncode, done.stdout), (status, b''), done.stderr)
        self.assertIn(says, done.stderr)

    def chat(self, conversation, *words):
        return self.output('--template', '-', *words, input=json.dumps(conversation))

    # ------------------------------------------------------------------ text

    def test_text_and_back(self):
        ids = self.ids(TEXT)
        self.assertEqual(self.ids(input=TEXT), ids)
        self.assertEqual(self.ids('The quick', 'brown fox,', TEXT[21:]), ids)  # words are joined by spaces
        self.assertEqual(self.output('--decode', ','.join(map(str, ids))).decode(), TEXT)
        self.assertEqual(self.output('--decode', '-', input=','.join(map(str, ids)) + '\n').decode(), TEXT)
        self.assertEqual(self.ids(input=''), [])

    def test_table(self):
        lines = self.output(TEXT).decode().splitlines()
        self.assertEqual([int(line.split()[0]) for line in lines], self.ids(TEXT))
        self.assertIn('"T', lines[0])
        self.assertTrue(any('\\n' in line for line in lines))
        self.assertTrue(any('\\x' in line for line in lines))  # bytes of 日本, one token each
        marked = self.output('a<|im_end|>', '--special').decode().splitlines()[-1]
        self.assertEqual(marked.split(), [str(self.end), '"<|im_end|>"', 'control'])

    def test_json(self):
        tokens = json.loads(self.output(TEXT, '--json'))['tokens']
        self.assertEqual([t['id'] for t in tokens], self.ids(TEXT))
        pieces = b''.join(bytes(t['piece']) if isinstance(t['piece'], list) else t['piece'].encode() for t in tokens)
        self.assertEqual(pieces.decode(), TEXT)

    def test_control_tokens(self):
        written = 'a<|im_end|>b'
        self.assertNotIn(self.end, self.ids(written))
        with_control = self.ids(written, '--special')
        self.assertIn(self.end, with_control)
        listed = ','.join(map(str, with_control))
        self.assertEqual(self.output('--decode', listed).decode(), 'ab')
        self.assertEqual(self.output('--decode', listed, '--special').decode(), written)
        self.assertEqual(self.output('--decode', ','.join(map(str, self.ids(written)))).decode(), written)

    def test_bos(self):
        wants = oracle_models.Gguf(self.plain).set_bool('tokenizer.ggml.add_bos_token', True).write(self.path('bos.gguf'))

        def ids(*words):
            return gale('tokenize', wants, 'a', '--ids', *words).stdout.decode().strip().split(',')
        self.assertEqual(ids()[1:], ids('--no-bos'))

    # ------------------------------------------------------------------ conversations

    def test_template(self):
        messages = [{'role': 'system', 'content': 'S'}, {'role': 'user', 'content': [{'type': 'text', 'text': 'hi <|im_end|>'}]}]
        out = json.loads(self.chat(messages, '--json'))
        text = '<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n'
        self.assertEqual(out['text'], text)
        self.assertEqual(''.join(p['text'] for p in out['parts']), text)
        self.assertEqual([p['text'] for p in out['parts'] if not p['from_template']], ['S', 'hi <|im_end|>'])
        ids = [t['id'] for t in out['tokens']]
        self.assertEqual((ids.count(self.start), ids.count(self.end)), (3, 2))
        self.assertEqual(self.chat(messages, '--ids').decode().strip(), ','.join(map(str, ids)))
        shown = self.chat(messages).decode()
        self.assertTrue(shown.startswith(text))
        self.assertEqual(shown[len(text):].split()[0], str(ids[0]))

    def test_fields_of_a_conversation(self):
        file = self.path('conversation.json')
        with open(file, 'w') as f:
            json.dump({'messages': [{'role': 'user', 'content': 'x'}], 'tools': [{'name': '<|im_start|>'}],
                       'documents': [], 'variables': {'thinking': True}}, f)
        out = json.loads(self.output('--template', file, '--json'))
        self.assertEqual(out['text'], '[system: 1 tools]<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>')
        out = self.chat({'messages': [], 'add_generation_prompt': False}, '--json')
        self.assertEqual(json.loads(out)['text'], '')

    def test_several_templates(self):
        gguf = oracle_models.Gguf(self.model).set_text('tokenizer.chat_template.tool_use', 'T{{ tools|length }}')
        path = gguf.set_text('tokenizer.chat_template.rag', 'R').write(self.path('several.gguf'))

        def text(conversation):
            done = gale('tokenize', path, '--template', '-', '--json', input=json.dumps(conversation))
            return json.loads(done.stdout)['text'] if done.returncode == 0 else done.stderr
        self.assertEqual(text([]), '<|im_start|>assistant\n')
        self.assertEqual(text({'messages': [], 'tools': [{}, {}]}), 'T2')
        self.assertEqual(text({'messages': [], 'template': 'rag'}), 'R')
        self.assertIn('tool_use', text({'messages': [], 'template': 'nope'}))

    # ------------------------------------------------------------------ directories

    def test_directory_without_weights(self):
        folder = self.path('tokenizer')
        os.mkdir(folder)
        tokens = {chr(c): i for i, c in enumerate(range(33, 127))} | {'Ġ': 94, 'he': 95, '<|im_start|>': 96, '<|im_end|>': 97}
        with open(os.path.join(folder, 'tokenizer.json'), 'w') as f:
            json.dump({'added_tokens': [{'id': i, 'content': t, 'special': True} for t, i in tokens.items() if i >= 96],
                       'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False}, 'decoder': {'type': 'ByteLevel'},
                       'model': {'type': 'BPE', 'vocab': {t: i for t, i in tokens.items() if i < 96}, 'merges': ['h e']}}, f)
        with open(os.path.join(folder, 'chat_template.jinja'), 'w') as f:
            f.write(TEMPLATE)
        done = gale('tokenize', folder, 'he said', '--ids')
        self.assertEqual((done.returncode, done.stdout), (0, b'95,94,82,64,72,67\n'), done.stderr)
        done = gale('tokenize', folder, '--template', '-', '--json', input='[{"role": "user", "content": "<|im_end|>"}]')
        ids = [t['id'] for t in json.loads(done.stdout)['tokens']]
        self.assertEqual((ids.count(96), ids.count(97)), (2, 1))
        self.fails(self.folder.name, 'x', says='tokenizer.json')
        # What is there but can't be read isn't taken for missing: links into a cache that was cleaned.
        os.rename(os.path.join(folder, 'chat_template.jinja'), os.path.join(folder, 'moved'))
        os.symlink('gone', os.path.join(folder, 'chat_template.jinja'))
        self.fails(folder, 'x', says='chat_template.jinja')

    def test_special_tokens_of_templates(self):
        plain = oracle_models.Gguf(self.plain).set_text(
            'tokenizer.chat_template', '{{ bos_token }}|{{ eos_token }}|{{ unk_token is defined }}|{{ pad_token }}')
        plain.set_u32('tokenizer.ggml.padding_token_id', self.end)
        done = gale('tokenize', plain.write(self.path('pad.gguf')), '--template', '-', '--json', input='[]')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)['text'].endswith('|False|<|im_end|>'), done.stdout)

    # ------------------------------------------------------------------ errors

    def test_errors(self):
        self.fails(self.path('missing.gguf'), 'x', says='missing.gguf')
        self.fails(model(arch='llama'), 'x', says='no vocabulary')
        self.fails(self.plain, '--decode', '100000', says='token 100000 is out of range')
        self.fails(self.plain, '--decode', '1,x', says="'x'", status=2)
        self.fails(self.plain, '--decode', '1', '--template', '-', says='--decode or --template', status=2)
        self.fails(self.plain, 'text', '--decode', '1', says='--decode', status=2)
        self.fails(self.plain, 'text', '--ids', '--json', says='--ids or --json', status=2)
        self.fails(self.model, '--template', '-', input='{', says='conversation: parse error at line 1, column 2')
        self.fails(self.model, '--template', '-', input='{"messages": 1}', says="'messages' must be a list")
        self.fails(self.model, '--template', self.path('nope.json'), says='nope.json')
        self.fails(self.model, '--template', self.folder.name, says='directory')
        bad = oracle_models.Gguf(self.plain).set_text('tokenizer.chat_template', "\n{{ raise_exception('no images') }}")
        self.fails(bad.write(self.path('raise.gguf')), '--template', '-', input='[]', says='line 2, column 19: the chat template')
        none = oracle_models.Gguf(self.plain).without('tokenizer.chat_template').write(self.path('none.gguf'))
        self.fails(none, '--template', '-', input='[]', says='no chat template')
        with open('/dev/full', 'wb') as full:
            done = gale('tokenize', self.model, 'x', stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn('No space left', done.stderr)


main()
