"""`gale convert`: models of every type answer as they should, wrong calls say what is wrong, nothing is left behind."""
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

TYPES = ('q4_k_m', 'q4_k_s', 'q5_k_m', 'q5_k_s', 'q6_k', 'q8_0', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'iq4_nl', 'mxfp4', 'q4_k',
         'q5_k', 'bf16', 'f16', 'f32')
# Error of the logits, in parts of their size, that weights of so few bits may cause in a model of random numbers.
LIMITS = {'f32': 1e-12, 'f16': 1e-6, 'bf16': 1e-4, 'q8_0': 1e-3, 'q6_k': 1e-2}
LIMIT = 0.25


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def fails(self, *words, says, status=1, **more):
        done = gale('convert', *words, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        for part in [says] if isinstance(says, str) else says:
            self.assertIn(part, done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith('.part')], [])

    def logits(self, path):
        done = gale('logits', path, '--tokens', '1-12', '--out', '-', '--executor', 'reference', '--threads', '1')
        self.assertEqual(done.returncode, 0, done.stderr)
        out = array.array('f')
        out.frombytes(done.stdout)
        return out

    def test_every_type_answers(self):
        # Rows of 256 values, so that every type can be used; and short ones, which fall back to other types.
        for source in (model(arch='llama', overrides=['zzz=q4_K']), model(arch='gemma3')):
            expected = self.logits(source)
            size = math.fsum(x * x for x in expected)
            for kind in TYPES:
                out = self.path(f'{kind}.gguf')
                done = gale('convert', source, out, '--type', kind)
                self.assertEqual((done.returncode, done.stdout), (0, b''), done.stderr)
                self.assertIn(out, done.stderr)
                error = math.fsum((a - b) ** 2 for a, b in zip(self.logits(out), expected)) / size
                self.assertLess(error, LIMITS.get(kind, LIMIT), kind)
                if kind != 'f32':
                    self.assertGreater(error, 0, kind)

    def test_directories(self):
        for arch in ('llama', 'gemma3'):
            folder = oracle_models.make(arch=arch, vocab=True, hf='bf16', overrides=['zzz=q4_K'])
            source = os.path.join(folder, 'hf')
            expected = self.logits(source)
            size = math.fsum(x * x for x in expected)
            for kind, limit in (('f32', 1e-12), ('bf16', 1e-12), ('q4_k_m', LIMIT)):
                out = self.path('out.gguf')
                done = gale('convert', source, out, '--type', kind)
                self.assertEqual(done.returncode, 0, done.stderr)
                got = self.logits(out)
                self.assertLess(math.fsum((a - b) ** 2 for a, b in zip(got, expected)) / size, limit, (arch, kind))
            # The settings and the vocabulary are those of the GGUF file of the same model.
            before = oracle_models.Gguf(os.path.join(folder, 'model.gguf')).keys
            after = oracle_models.Gguf(out).keys
            self.assertEqual({key for key in before if before[key] != after.get(key)},
                             {'general.name', 'general.file_type'})
        copy = self.path('copy')
        shutil.copytree(source, copy)
        for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
            self.fails(copy, os.path.join(copy, name), '--type', 'f32', says=(name, 'source'))
        for _ in range(2):
            self.assertEqual(gale('convert', copy, os.path.join(copy, 'model.gguf'), '--type', 'f32').returncode, 0)
        folder = os.path.join(oracle_models.make(arch='qwen3', hf='bf16'), 'hf')
        self.fails(folder, self.path('x.gguf'), '--type', 'q8_0', says=("'qwen3'", folder))
        self.assertFalse(os.path.exists(self.path('x.gguf')))

    def test_tensors_that_nobody_knows(self):
        source = self.path('source')
        shutil.copytree(os.path.join(oracle_models.make(arch='llama', hf='bf16'), 'hf'), source)
        weights = os.path.join(source, 'model.safetensors')
        with open(weights, 'rb') as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), 'little')))
            data = f.read()
        long_name = 'vision_tower.' + 'x' * 60
        for name in ('odd.one', long_name):
            header[name] = {'dtype': 'F32', 'shape': [2], 'data_offsets': [len(data), len(data) + 8]}
            data += b'\0\0\x80\x3f' * 2
        head = json.dumps(header).encode()
        with open(weights, 'wb') as f:
            f.write(len(head).to_bytes(8, 'little') + head + data)
        out = self.path('out.gguf')
        done = gale('convert', source, out, '--type', 'q8_0')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"'{long_name}' is left out", done.stderr)
        tensors = {t[0]: t[3][:8] for t in oracle_models.Gguf(out).tensors}
        self.assertEqual(tensors.get('odd.one'), b'\0\0\x80\x3f' * 2)
        self.assertNotIn(long_name, tensors)

    def test_what_inspect_says(self):
        out = self.path('out.gguf')
        self.assertEqual(gale('convert', model(arch='llama', vocab=True, overrides=['zzz=q4_K']), out,
                              '--type=Q4_K_M').returncode, 0)
        shown = gale('inspect', out, '--tensors').stdout.decode()
        for part in ('general.file_type = 15', 'general.quantization_version = 2', 'Q4_K', 'Q6_K', 'memory:'):
            self.assertIn(part, shown)
        done = gale('run', out, 'The quick', '--max-tokens', '5', '--quiet')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_requantize(self):
        source, small, back = model(arch='llama'), self.path('small.gguf'), self.path('back.gguf')
        self.assertEqual(gale('convert', source, small, '--type', 'q8_0').returncode, 0)
        self.fails(small, back, '--type', 'q4_0', says=('--requantize', 'Q8_0', small))
        self.assertFalse(os.path.exists(back))
        self.assertEqual(gale('convert', small, back, '--type', 'q4_0', '--requantize').returncode, 0)
        again = gale('convert', small, back, '--type', 'q8_0')
        self.assertEqual(again.returncode, 0, again.stderr)
        with open(small, 'rb') as a, open(back, 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def test_wrong_calls(self):
        source = model(arch='llama')
        for words in ((), (source,), (source, 'a', 'b'), (source, self.path('o'))):
            self.fails(*words, status=2, says='--type' if len(words) == 2 else 'usage')
        self.fails(source, self.path('o'), '--type', 'q2_k', status=2, says='q4_k_m|')
        self.fails(source, self.path('o'), '--type', 'q8_0', '--threads', '0', status=2, says='--threads')
        self.fails(self.path('none.gguf'), self.path('o'), '--type', 'q8_0', says='none.gguf')
        self.fails(source, self.path('no/o'), '--type', 'q8_0', says='no/o')
        self.fails(source, self.folder, '--type', 'q8_0', says='directory')
        self.assertEqual(os.listdir(self.folder), [])

    def test_source_as_target(self):
        source = self.path('m.gguf')
        oracle_models.Gguf(model(arch='llama')).write(source)
        os.symlink(source, self.path('link.gguf'))
        os.link(source, self.path('hard.gguf'))
        for out in (source, self.path('link.gguf'), self.path('hard.gguf')):
            self.fails(source, out, '--type', 'q8_0', says='source')

    def test_no_room(self):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960))
        self.fails(model(arch='llama'), self.path('o.gguf'), '--type', 'f32', preexec_fn=limited, says=('o.gguf', 'bytes'))
        self.assertEqual(os.listdir(self.folder), [])

    def test_memory_is_that_of_pieces(self):
        source = self.path('large.gguf')
        row, rows = 1024, 100_000  # 400 MB of F32, as a file with a hole in it
        oracle_models.Gguf(model(arch='llama')).write(source)
        large = oracle_models.Gguf(source)
        large.tensors.append(['zz.large.weight', (row, rows), 0, b''])
        large.write(source)
        os.truncate(source, os.path.getsize(source) + 4 * row * rows)
        script = ('import resource, subprocess, sys; status = subprocess.run(sys.argv[1:]).returncode; '
                  'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(status)')
        done = subprocess.run([sys.executable, '-c', script, GALE, 'convert', source, self.path('o.gguf'), '--type', 'q8_0',
                               '--threads', '2'], capture_output=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout), 200 * 1024)  # kB

    def test_interrupt(self):
        source = self.path('large.gguf')
        oracle_models.Gguf(model(arch='llama')).write(source)
        large = oracle_models.Gguf(source)
        large.tensors.append(['zz.large.weight', (4096, 200_000), 0, b''])
        large.write(source)
        os.truncate(source, os.path.getsize(source) + 4 * 4096 * 200_000)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
            process = subprocess.Popen([GALE, 'convert', source, self.path('o.gguf'), '--type', 'q4_k', '--threads', '1'],
                                       stderr=subprocess.PIPE)
            end = time.monotonic() + SECONDS
            while not self.is_writing(process) and process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            process.send_signal(number)
            message = process.communicate(timeout=SECONDS)[1]
            self.assertEqual(process.returncode, status, message)
            if number == signal.SIGINT or self.has_files_without_names():
                self.assertEqual(os.listdir(self.folder), ['large.gguf'], number)

    def is_writing(self, process):
        folder = f'/proc/{process.pid}/fd'
        try:
            files = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        except OSError:
            return False
        return any(f.startswith(os.path.realpath(self.folder)) and not f.endswith('large.gguf') for f in files)

    def has_files_without_names(self):
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            return False
        return True

    def test_settings_of_the_oracle_are_kept(self):
        source, out = model(arch='gemma3', vocab=True), self.path('out.gguf')
        self.assertEqual(gale('convert', source, out, '--type', 'q8_0').returncode, 0)
        before, after = oracle_models.Gguf(source).keys, oracle_models.Gguf(out).keys
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        self.assertEqual(changed, {'general.file_type'})
        self.assertEqual(list(before), list(after))


main()
