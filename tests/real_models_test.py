"""Real models, where they are (GALE_MODELS or ./models): the same text whatever the instruction set, the threads and the
chunks. `--full` runs 500 tokens through every chunk size instead of 100."""
import os
import subprocess
import sys
import tempfile
import unittest

SKIP = 77
GALE = os.environ.get('GALE_BINARY', '')
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.environ.get('GALE_MODELS') or os.path.join(ROOT, 'models')
FULL = '--full' in sys.argv
NAMES = ('SmolLM2-135M-Instruct.Q4_1.gguf', 'gemma-3-270m-q4_k_m.gguf')
PROMPT = 'Explain in three sentences why the sky is blue.'
TEXT = ('The engine reads a file, checks every number in it, and turns it into a list of steps. Each step moves bytes; '
        'the fewer, the better. 1234567 + 89 = 1234656. ') * (12 if FULL else 3)


def gale(*words):
    done = subprocess.run([GALE, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=590)
    if done.returncode != 0:
        raise AssertionError(f'gale {" ".join(words)}: {done.stderr.decode()}')
    return done.stdout


class RealModels(unittest.TestCase):
    def models(self):
        for name in NAMES:
            path = os.path.join(FOLDER, name)
            if os.path.exists(path):
                with self.subTest(name):
                    yield path

    def test_text_does_not_depend_on_the_machine(self):
        with open('/proc/cpuinfo') as f:
            flags = f.read()
        for path in self.models():
            def text(tokens, *more):
                return gale('run', path, PROMPT, '--temperature', '0', '--quiet', '--max-tokens', str(tokens), *more)
            expected = text(48)
            self.assertGreater(len(expected), 40)
            for threads in '1234':
                self.assertEqual(text(48, '--threads', threads), expected, f'{threads} threads')
            few = text(8)
            for isa, flag in (('avx2', 'avx2'), ('avx512', 'avx512_vnni')):
                if f' {flag}' in flags:
                    self.assertEqual(text(48, '--isa', isa), expected, isa)
            self.assertEqual(text(8, '--isa', 'scalar'), few, 'scalar')  # slow

    def test_logits_do_not_depend_on_chunks(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, 'logits')
            for path in self.models():
                def logits(*more):
                    gale('logits', path, '--text', TEXT, '--out', out, *more)
                    with open(out, 'rb') as f:
                        return f.read()
                expected = logits()
                for chunk in (1, 2, 3, 4, 5, 7, 8, 16, 64):
                    self.assertTrue(logits('--chunk', str(chunk)) == expected, f'chunks of {chunk}')


if __name__ == '__main__':
    if not GALE or not any(os.path.exists(os.path.join(FOLDER, name)) for name in NAMES):
        print(f'skipped: none of {", ".join(NAMES)} is in {FOLDER} (GALE_MODELS may name another folder)')
        sys.exit(SKIP)
    if FULL:
        sys.argv.remove('--full')
    unittest.main()
