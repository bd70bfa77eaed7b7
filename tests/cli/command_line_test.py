"""Every way to call the program wrongly gives a message on standard error and the right exit status; text goes to
standard output and nowhere else."""
import array
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import GALE, SECONDS, gale, main, model, oracle_models  # noqa: E402

COMMANDS = ('run', 'bench', 'inspect', 'tokenize', 'convert', 'logits', 'completion')
LIMIT = 512 << 20


def floats(data):
    out = array.array('f')
    out.frombytes(data)
    return out


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text_model = model(arch='llama', vocab=True)
        cls.folder = tempfile.TemporaryDirectory()
        # Answers of this one don't end for a long while.
        cls.endless = cls.path('endless.gguf')
        oracle_models.Gguf(cls.text_model).set_u32('llama.context_length', 1 << 20).write(cls.endless)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def fails(self, *words, says=(), status=1, **more):
        done = gale(*words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        if done.stdout is not None:
            self.assertEqual(done.stdout, b'')
        self.assertTrue(done.stderr.startswith('gale: '), done.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, done.stderr)
        return done

    # ------------------------------------------------------------------ files

    def test_bad_files(self):
        empty, text = self.path('empty.gguf'), self.path('notes.txt')
        open(empty, 'w').close()
        with open(text, 'w') as f:
            f.write('just some words\n' * 100)
        unknown = oracle_models.Gguf(self.text_model).set_text('general.architecture', 'mamba99')
        renamed = oracle_models.Gguf(self.text_model).rename('blk.0.attn_q.weight', 'blk.0.attn_x.weight')
        nonsense = oracle_models.Gguf(self.text_model).set_text('tokenizer.ggml.pre', 'nonsense')
        cases = [(self.path('missing.gguf'), 'missing.gguf'), (self.folder.name, self.folder.name), (empty, 'empty.gguf'),
                 (text, 'notes.txt'), (unknown.write(self.path('unknown.gguf')), 'mamba99'),
                 (renamed.write(self.path('renamed.gguf')), 'blk.0.attn_q.weight')]
        for path, part in cases:
            self.fails('run', path, 'hello', says=part)
            self.fails('logits', path, '--tokens', '1', '--out', '-', says=part)
            self.fails('bench', path, says=part)
        for path, part in cases[:4]:
            self.fails('inspect', path, says=part)
        self.fails('run', nonsense.write(self.path('nonsense.gguf')), 'hello', says='nonsense')
        shining = oracle_models.Gguf(self.text_model).set_text('general.architecture', 'mamba\x1b[31m')
        shining = self.fails('run', shining.write(self.path('shining.gguf')), 'hello', says='mamba\\x1b[31m')
        self.assertNotIn('\x1b', shining.stderr)
        no_vocab = model(arch='llama')
        self.fails('run', no_vocab, 'hello', says=('vocabulary', no_vocab))
        self.fails('logits', no_vocab, '--text', 'a', '--out', '-', says='--tokens')

    def test_inspect_shows_what_cannot_run(self):
        path = oracle_models.Gguf(self.text_model).set_text('general.architecture', 'mamba99').write(self.path('odd.gguf'))
        done = gale('inspect', path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b'mamba99', done.stdout)
        self.assertIn(b"can't run", done.stdout)
        self.fails('inspect', path, '--program', says='mamba99')

    def test_settings_of_another_model(self):
        fewer = oracle_models.Gguf(self.text_model).set_u32('llama.block_count', 1).write(self.path('fewer.gguf'))
        done = gale('run', fewer, 'hello', '--max-tokens', '1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('blk.1.', done.stderr)
        merges = oracle_models.Gguf(self.text_model).without('tokenizer.ggml.merges').write(self.path('merges.gguf'))
        self.assertIn('tokenizer.ggml.merges is missing', gale('tokenize', merges, 'hello').stderr)

    def test_bad_template(self):
        path = oracle_models.Gguf(self.text_model).set_text('tokenizer.chat_template', '\n{% if').write(self.path('t.gguf'))
        self.fails('run', path, 'hello', says=('chat template', 'line 2'))
        path = oracle_models.Gguf(self.text_model).set_text(
            'tokenizer.chat_template', "{{ raise_exception('no such role') }}").write(self.path('r.gguf'))
        self.fails('run', path, 'hello', says='no such role')

    # ------------------------------------------------------------------ words

    def test_no_command_or_a_wrong_one(self):
        done = gale()
        self.assertEqual((done.returncode, done.stdout), (2, b''))
        self.assertIn('usage', done.stderr)
        self.fails('rum', status=2, says="'rum'")
        for command in COMMANDS:
            self.fails(command, status=2, says='usage')
            self.fails(command, '--nonsense', status=2, says="unknown option '--nonsense'")
        for command in ('bench', 'inspect', 'logits', 'convert'):
            self.fails(command, 'a', 'b', 'c', status=2, says=("'c'" if command == 'convert' else "'b'", 'usage'))

    def test_help(self):
        done = gale('--help')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        for command in COMMANDS:
            self.assertIn(command.encode(), done.stdout)
            one = gale(command, '--help')
            self.assertEqual((one.returncode, one.stderr), (0, ''))
            self.assertIn(f'usage: gale {command}'.encode(), one.stdout)
            self.assertEqual(gale(command, '-h').stdout, one.stdout)
            self.assertEqual(gale(command, 'x', '--help').stdout, one.stdout)
            for line in one.stdout.decode().splitlines():
                self.assertLessEqual(len(line), 160)
        self.assertRegex(gale('--version').stdout, rb'^gale \d+\.\d+\.\d+\n$')

    def test_wrong_options(self):
        for words, part in [(('--temprature', '1'), '--temperature'), (('--temperature',), 'needs a value'),
                            (('--temperature', 'hot'), "'hot'"), (('--temperature', '-1'), "'-1'"),
                            (('--temperature', 'nan'), 'nan'), (('--top-p', '2'), '--top-p'), (('--min-p', '1.5'), '--min-p'),
                            (('--top-k', '-3'), '--top-k'), (('--top-k', '4x'), "'4x'"),
                            (('--seed', '18446744073709551616'), '--seed'), (('--max-tokens', '0'), '--max-tokens'),
                            (('--repeat-penalty', '0'), '--repeat-penalty'), (('--threads', '0'), '--threads'),
                            (('--context', '0'), '--context'), (('--cache-type', 'f64'), 'f16|f32|q8_0'),
                            (('--executor', 'gpu'), 'cpu|reference'), (('--isa', 'mmx'), 'scalar|avx2|avx512'),
                            (('--quiet=yes',), 'takes no value'), (('-q',), "'-q'")]:
            self.fails('run', self.text_model, 'hi', *words, status=2, says=part)
        self.fails('run', self.text_model, 'hi', '--raw', '--system', 'x', status=2, says='--raw or --system')
        self.fails('logits', self.text_model, '--tokens', '1', status=2, says='--out')
        self.fails('logits', self.text_model, '--out', '-', status=2, says='--tokens')
        self.fails('logits', self.text_model, '--tokens', '1', '--text', 'a', '--out', '-', status=2, says='--tokens')
        self.fails('bench', self.text_model, '--depths', '0,x', status=2, says="'x'")
        self.fails('bench', self.text_model, '--depths', '4194304k', status=2, says='4194304k')
        self.fails('inspect', self.text_model, '--context', 'x', status=2, says='--context')
        self.fails('completion', 'fish', status=2, says='bash|zsh')

    def test_tokens(self):
        for tokens in ('', 'x', '1,,2', '5-2', '1-', '1-99999999999', '-2147483648-2147483647', '99999999999'):
            self.fails('logits', self.text_model, f'--tokens={tokens}', '--out', '-', status=2)
        for tokens, part in (('288', '288'), ('1,2,100000', '100000'), ('-1', '-1'), ('2147483647', '2147483647')):
            self.fails('logits', self.text_model, f'--tokens={tokens}', '--out', '-', says=('out of range', part))
        self.fails('logits', self.text_model, '--tokens', '0-256', '--context', '256', '--out', '-', says=('257', '256'))

    def test_prompt_longer_than_the_context(self):
        for letters in (257, 300):
            done = self.fails('run', self.text_model, '--raw', '--context', '256', '\x01' * letters,
                              says=(str(letters), '256', '--context'))
            self.assertEqual(done.stderr.count('\n'), 1)
        self.fails('run', self.text_model, '--raw', '--context', '256', '\x01' * 256, says=('256', 'no room'))
        done = gale('run', self.text_model, '--raw', '--context', '256', '--ignore-end', '\x01' * 255)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('answer 1 tokens', done.stderr)
        self.assertIn('context full', done.stderr)
        self.fails('run', self.text_model, '--context', '16', input='word ' * 100, says='16')

    def test_memory_limit(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        if gale('--version', preexec_fn=limited).returncode != 0:
            self.skipTest('this build does not run in 512 MB of address space')
        words = ('run', self.endless, 'hi', '--max-tokens', '3', '--threads', '1')
        done = gale(*words, preexec_fn=limited)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('1048576', done.stderr)  # said, not silently less
        self.fails(*words, '--context', '1048576', preexec_fn=limited, says=('1048576', 'GB', '--context'))

    # ------------------------------------------------------------------ output

    def test_text_only_on_standard_output(self):
        words = ('run', self.text_model, 'The quick', '--temperature', '0', '--max-tokens', '20')
        loud, quiet = gale(*words), gale(*words, '--quiet')
        self.assertEqual((loud.returncode, quiet.returncode), (0, 0))
        self.assertEqual(loud.stdout, quiet.stdout)
        self.assertEqual(quiet.stderr, '')
        self.assertIn('tok/s', loud.stderr)
        self.assertEqual(loud.stderr.count('\n'), 1)
        for bar in ('\r', '\033', '━', '╌'):
            self.assertNotIn(bar, loud.stderr)
        self.assertTrue(loud.stdout.endswith(b'\n'))
        loud.stdout.decode()  # whole characters
        for more in (('--threads', '1'), ('--isa', 'scalar'), ('--threads', '3')):
            self.assertEqual(gale(*words, *more).stdout, loud.stdout)

    def test_no_progress_bar_on_long_prompts(self):
        done = gale('run', self.endless, '--raw', '--max-tokens', '1', input='word ' * 3000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('\r', done.stderr)

    def test_seeds(self):
        words = ('run', self.text_model, 'hi', '--max-tokens', '20', '--ignore-end', '--quiet', '--temperature', '5',
                 '--top-k', '0', '--min-p', '0', '--top-p', '1')
        seven = gale(*words, '--seed', '7').stdout
        self.assertEqual(gale(*words, '--seed=7').stdout, seven)
        self.assertNotEqual(gale(*words, '--seed', '8').stdout, seven)
        self.assertNotEqual(gale(*words).stdout, gale(*words).stdout)

    def test_stop(self):
        words = ('run', self.text_model, 'The quick', '--raw', '--temperature', '0', '--max-tokens', '30', '--ignore-end')
        text = gale(*words).stdout[:-1].decode()
        stop = text[len(text) // 2:len(text) // 2 + 3]
        done = gale(*words, '--stop', 'never in there', '--stop', stop)
        self.assertEqual(done.stdout[:-1].decode(), text[:text.index(stop)])
        self.assertIn('stop string', done.stderr)

    def test_prompts_from_standard_input(self):
        words = ('run', self.text_model, '--temperature', '0', '--max-tokens', '10', '--quiet')
        expected = gale(*words, 'hi there').stdout
        self.assertEqual(gale(*words, input='hi there').stdout, expected)
        self.assertEqual(gale(*words, '-', input='hi there').stdout, expected)
        self.assertEqual(gale(*words, 'hi', '-', input='there').stdout, expected)
        self.assertEqual(gale(*words, 'hi', 'there').stdout, expected)
        self.assertEqual(gale('run', self.text_model, '--temperature=0', '--max-tokens=10', '--quiet', '--', 'hi there').stdout,
                         expected)
        done = gale(*words)  # </dev/null: nothing was asked
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b'', ''))
        invalid = gale(*words, input=b'\xe6\xad \xff\xfe \xf5\xf8 \xed\xa0\x80')
        self.assertEqual(invalid.returncode, 0, invalid.stderr)

    def test_full_disk(self):
        for words in (('run', self.text_model, 'hi', '--max-tokens', '5'), ('inspect', self.text_model), ('--help',),
                      ('run', '--help'), ('--version',), ('completion', 'bash'),
                      ('logits', self.text_model, '--tokens', '1', '--out', '-')):
            with open('/dev/full', 'wb') as full:
                done = gale(*words, stdout=full)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn('No space left on device', done.stderr)
        self.fails('logits', self.text_model, '--tokens', '1', '--out', '/dev/full', says=('/dev/full', 'No space'))
        self.fails('logits', self.text_model, '--tokens', '1', '--out', self.path('no/such/x'), says='no/such/x')

    def test_closed_pipe(self):
        for words in (('run', self.endless, 'hi', '--ignore-end'), ('inspect', self.text_model, '--tensors')):
            process = subprocess.Popen([GALE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            process.stdout.read(1)
            process.stdout.close()
            message = process.stderr.read().decode()
            status = process.wait(SECONDS)
            process.stderr.close()
            if words[0] == 'run':  # what is short may have been written whole
                self.assertEqual(status, 1, message)
                self.assertIn('Broken pipe', message)
            self.assertIn(status, (0, 1))

    def test_interrupt(self):
        words = ('run', self.endless, 'hi', '--ignore-end', '--temperature', '0')
        process = subprocess.Popen([GALE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=0)
        begin = process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        rest, message = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 130, message)
        self.assertIn(b'cancelled', message)
        text = (begin + rest).removesuffix(b'\n')
        # The same answer up to there: whole characters, nothing lost.
        text.decode()
        count = int(message.decode().split('answer ')[1].split()[0])
        self.assertEqual(gale(*words, '--max-tokens', str(count)).stdout, text + b'\n')

    def test_interrupt_while_waiting_for_input(self):
        process = subprocess.Popen([GALE, 'run', self.text_model], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        with open(f'/proc/{process.pid}/stat') as f:  # until it sleeps in the read
            f.read()
        for _ in range(1000):
            try:
                with open(f'/proc/{process.pid}/wchan') as wchan, open(f'/proc/{process.pid}/status') as status:
                    if 'pipe' in wchan.read() or '\nState:\tS' in status.read():
                        break
            except FileNotFoundError:
                break
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        self.assertIn(process.returncode, (130, -signal.SIGINT))  # the latter: before there were handlers

    # ------------------------------------------------------------------ commands

    def test_completion(self):
        script = gale('completion', 'bash').stdout.decode()
        self.assertEqual(subprocess.run(['bash', '-n'], input=script, text=True).returncode, 0)

        def complete(*words):
            line = script + f'\nCOMP_WORDS=({" ".join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; _gale\n' \
                + 'printf "%s\\n" "${COMPREPLY[@]}"\n'
            return subprocess.run(['bash', '-c', line], capture_output=True, text=True).stdout.split()
        self.assertEqual(complete('gale', 'be'), ['bench'])
        self.assertEqual(set(complete('gale', '')), {*COMMANDS, '--help', '--version'})
        self.assertIn('--temperature', complete('gale', 'run', '--te'))
        self.assertEqual(complete('gale', 'run', '--cache-type', 'q'), ['q8_0'])
        zsh = gale('completion', 'zsh').stdout.decode()
        self.assertIn('compdef _gale gale', zsh)
        if shutil.which('zsh'):
            self.assertEqual(subprocess.run(['zsh', '-n'], input=zsh, text=True).returncode, 0)

    def test_inspect(self):
        done = gale('inspect', self.text_model, '--tensors')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        for part in ('general.architecture', 'blk.1.ffn_down.weight', 'F32', 'memory:', 'parameters'):
            self.assertIn(part, done.stdout.decode())
        program = gale('inspect', self.text_model, '--program').stdout.decode()
        self.assertIn('program llama: 2 blocks', program)
        self.assertIn('logits', program)
        dot = gale('inspect', self.text_model, '--dot').stdout.decode()
        self.assertTrue(dot.startswith('digraph'))
        self.assertEqual(dot.count('{'), dot.count('}'))
        # Memory of a cache: twice the positions, twice the bytes; half of the type, half the bytes.

        def cache(*words):
            line = next(l for l in gale('inspect', self.text_model, *words).stdout.decode().splitlines() if 'memory:' in l)
            number, unit = line.split('cache ')[1].split()[:2]
            return float(number) * {'kB': 1e3, 'MB': 1e6, 'GB': 1e9}[unit]
        self.assertAlmostEqual(cache('--context', '65536') / cache('--context', '32768'), 2, delta=0.02)
        self.assertAlmostEqual(cache('--cache-type', 'f32') / cache(), 2, delta=0.02)

    def test_logits(self):
        folder = oracle_models.make(arch='llama', vocab=True)
        with open(os.path.join(folder, 'expected.json')) as f:
            info = json.load(f)
        with open(os.path.join(folder, 'expected.safetensors'), 'rb') as f:
            header_bytes = int.from_bytes(f.read(8), 'little')
            header = json.loads(f.read(header_bytes))
            begin, end = header['logits']['data_offsets']
            f.seek(8 + header_bytes + begin)
            expected = floats(f.read(end - begin))
        tokens = ','.join(map(str, info['tokens']))

        def logits(*words):
            out = self.path('logits.f32')
            done = gale('logits', self.text_model, '--out', out, *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b'', ''))
            with open(out, 'rb') as f:
                return f.read()

        def nmse(got):
            got = floats(got)
            self.assertEqual(len(got), len(expected))
            return math.fsum((a - b) ** 2 for a, b in zip(got, expected)) / math.fsum(b * b for b in expected)
        plain = logits('--tokens', tokens)
        self.assertLess(nmse(plain), 1e-5)  # the f16 cache
        self.assertEqual(logits('--text', info['text']), plain)
        self.assertEqual(gale('logits', self.text_model, '--tokens', tokens, '--out', '-').stdout, plain)
        for more in (('--chunk', '1'), ('--chunk', '7'), ('--threads', '1'), ('--isa', 'scalar')):
            self.assertEqual(logits('--tokens', tokens, *more), plain, more)
        self.assertLess(nmse(logits('--tokens', tokens, '--cache-type', 'f32')), 1e-8)
        self.assertLess(nmse(logits('--tokens', tokens, '--executor', 'reference')), 1e-10)
        eight_bits = nmse(logits('--tokens', tokens, '--cache-type', 'q8_0'))
        self.assertTrue(1e-9 < eight_bits < 1e-2, eight_bits)
        self.assertEqual(logits('--tokens', '5-9'), logits('--tokens', '5,6,7,8,9'))

    def test_a_model_is_not_written_over(self):
        copy, link = self.path('copy.gguf'), self.path('link')
        shutil.copy(self.text_model, copy)
        os.symlink(copy, link)
        for out in (copy, link):
            self.fails('logits', copy, '--tokens', '1', '--out', out, says='source itself')
            self.fails('bench', copy, '--json', out, says='source itself')
            self.fails('bench', copy, '--svg', out, says='source itself')
        with open(copy, 'rb') as a, open(self.text_model, 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def test_logits_larger_than_memory(self):
        vocabulary, tokens = 288, 1 << 20  # 1.2 GB
        self.fails('logits', self.endless, '--tokens', ','.join([f'1-{vocabulary - 1}'] * (tokens // vocabulary)), '--context',
                   str(tokens), '--cache-type', 'q8_0', '--out', '-', says=('logits', 'bytes'),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))

    def test_interrupt_of_logits(self):
        tokens = ','.join(['1-99'] * 300)
        process = subprocess.Popen([GALE, 'logits', self.endless, '--tokens', tokens, '--chunk', '1', '--context', '40000',
                                    '--threads', '1', '--out', '-'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + SECONDS
        while not self.catches_interrupts(process) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, message = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, out), (130, b''), message)

    def catches_interrupts(self, process):
        with open(f'/proc/{process.pid}/status') as f:
            caught = next(line for line in f if line.startswith('SigCgt'))
        return int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1

    def test_bench(self):
        words = ('bench', self.text_model, '--rounds', '1', '--passes', '2', '--prefill', '16', '--depths', '0,32')
        svg, table_json = self.path('bench.svg'), self.path('bench.json')
        done = gale(*words, '--json', '-', '--svg', svg)
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)
        self.assertGreater(figures['bandwidth_bytes_per_second'], 0)
        self.assertEqual(figures['prefill']['tokens'], 16)
        self.assertGreater(figures['prefill']['seconds'], 0)
        self.assertEqual([m['depth'] for m in figures['decode']], [0, 32])
        self.assertEqual([m['columns'] for m in figures['columns']], list(range(1, 9)))
        for m in figures['decode'] + figures['columns']:
            for key in ('seconds', 'bytes', 'tokens_per_second', 'limit_share'):
                self.assertGreater(m[key], 0)
        for profile in figures['phases']:
            self.assertTrue(profile['phases'])
        with open(svg) as f:
            picture = f.read()
        self.assertTrue(picture.startswith('<svg') and picture.rstrip().endswith('</svg>'))
        table = gale(*words, '--json', table_json)
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn('tok/s', table.stdout.decode())
        with open(table_json) as f:
            json.load(f)
        left_out = gale(*words[:-1], '0,100k', '--json', '-')
        self.assertEqual(left_out.returncode, 0, left_out.stderr)
        self.assertIn('102400', left_out.stderr)
        self.fails(*words, '--executor', 'reference', says='CPU executor')
        self.fails('bench', self.text_model, '--prefill', '5000', says=('5000', '4096'))
        with open('/dev/full', 'wb') as full:
            self.assertEqual(gale(*words, stdout=full).returncode, 1)


main()
