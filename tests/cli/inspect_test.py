"""gale inspect on directories, and --check on both formats: what it prints and its exit status."""
import json
import os
import resource
import shutil
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import gale, main, model, oracle_models  # noqa: E402

F32, F16 = 0, 1


def header_of(path):
    with open(path, 'rb') as f:
        length, = struct.unpack('<Q', f.read(8))
        return 8 + length, json.loads(f.read(length))


class Inspect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.gguf = model(arch='llama', vocab=True)
        cls.directory = os.path.join(oracle_models.make(arch='llama', hf='fp8', vocab=True), 'hf')

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def copy(self, name):
        """A copy of the directory."""
        shutil.copytree(self.directory, self.path(name))
        return self.path(name)

    def prints(self, *words, status=0):
        done = gale('inspect', *words)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr, '')
        return done.stdout.decode()

    def test_a_directory_reads_as_the_file_of_the_same_model(self):
        text = self.prints(self.directory, '--tensors')
        self.assertIn('general.architecture = "llama"', text)
        self.assertIn('llama.embedding_length = ', text)
        self.assertIn('blk.1.attn_q.weight', text)
        self.assertIn('rope_freqs.weight', text)
        self.assertIn('memory: weights', text)
        self.assertNotIn('weight_scale', text)
        self.assertIn('some weights take fewer bytes in the files', text)
        steps = [line.split()[:2] for line in self.prints(self.directory, '--program').splitlines()[1:]]
        self.assertEqual(steps, [line.split()[:2] for line in self.prints(self.gguf, '--program').splitlines()[1:]])
        self.assertTrue(self.prints(self.directory, '--dot').startswith('digraph'))

    def test_check_of_good_models(self):
        for path in (self.gguf, self.directory):
            text = self.prints(path, '--check')
            self.assertRegex(text, r'^\S+: \d+ tensors, .* read: 0 things wrong, 0 notes\n$')

    def test_check_finds_values(self):
        for kind, bits, name in ((F32, '<f', 'nan.gguf'), (F16, '<e', 'half.gguf')):
            file = oracle_models.Gguf(self.gguf)
            for tensor in file.tensors:
                if tensor[0] == 'blk.1.ffn_up.weight':
                    count = tensor[1][0] * tensor[1][1]
                    values = [0.5] * count
                    values[tensor[1][0] * 3 + 5] = float('nan')
                    values[-1] = float('-inf')
                    tensor[2], tensor[3] = kind, struct.pack(f'<{count}{bits[1]}', *values)
            text = self.prints(file.write(self.path(name)), '--check', status=1)
            self.assertIn("wrong: tensor 'blk.1.ffn_up.weight': 1 of ", text)
            self.assertIn('the first is value 5 of row 3', text)
            self.assertIn(': 1 thing wrong, 0 notes', text)

    def test_check_finds_missing_and_unused_tensors(self):
        file = oracle_models.Gguf(self.gguf).rename('blk.1.attn_q.weight', 'blk.1.attn_x.weight')
        text = self.prints(file.write(self.path('renamed.gguf')), '--check', status=1)
        self.assertIn("tensor 'blk.1.attn_q.weight' is missing", text)
        file = oracle_models.Gguf(self.gguf)
        file.tensors.append(['extra.weight', (32,), F32, bytes(128)])
        text = self.prints(file.write(self.path('extra.gguf')), '--check')
        self.assertIn("note: tensor 'extra.weight' is used by no step", text)
        self.assertIn(': 0 things wrong, 1 note', text)

    def test_check_of_a_family_that_cannot_run(self):
        file = oracle_models.Gguf(self.gguf).set_text('general.architecture', 'mamba99')
        self.assertIn("note: ", self.prints(file.write(self.path('other.gguf')), '--check'))

    def test_check_finds_scales_of_directories(self):
        folder = self.copy('scales')
        file = os.path.join(folder, 'model.safetensors')
        start, header = header_of(file)
        at = start + header['model.layers.0.mlp.up_proj.weight_scale_inv']['data_offsets'][0]
        with open(file, 'r+b') as f:
            f.seek(at)
            f.write(struct.pack('<f', float('inf')))
        text = self.prints(folder, '--check', status=1)
        self.assertIn("wrong: tensor 'blk.0.ffn_up.weight'", text)
        self.assertIn('infinite', text)

    def test_errors_name_the_file_and_the_place(self):
        folder = self.copy('broken')
        config = os.path.join(folder, 'config.json')
        with open(config) as f:
            settings = json.load(f)
        for change, part in (({'hidden_size': None}, 'key "hidden_size" is missing'), ({'hidden_act': 'tanh'}, 'hidden_act'),
                             ({'quantization_config': {'quant_method': 'awq'}}, '"awq" is not supported')):
            with open(config, 'w') as f:
                json.dump(settings | change, f)
            for words in (('inspect', folder), ('inspect', folder, '--check'), ('run', folder, 'x')):
                done = gale(*words)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stdout, b'')
                self.assertIn(config, done.stderr)
                self.assertIn(part, done.stderr)

    def test_check_takes_little_memory(self):
        limit = 400 << 20  # of address space; the model's file is mapped as well
        path = self.path('large.gguf')
        file = oracle_models.Gguf(self.gguf)
        file.tensors.append(['large.weight', (1 << 20, 16), F32, bytes(64 << 20)])
        file.write(path)
        done = gale('inspect', path, '--check', preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(done.returncode, 0, done.stderr)


main()
