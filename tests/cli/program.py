"""Runs the finished program for the tests of the command line."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import oracle_models  # noqa: E402

GALE = os.environ.get('GALE_BINARY', '')
SECONDS = 120  # after which a command counts as hanging


def gale(*words, input=None, **more):
    """The finished process: returncode, stdout (bytes), stderr (text)."""
    if input is None and 'stdin' not in more:
        more['stdin'] = subprocess.DEVNULL
    if isinstance(input, str):
        input = input.encode()
    done = subprocess.run([GALE, *map(str, words)], input=input, stdout=more.pop('stdout', subprocess.PIPE),
                          stderr=subprocess.PIPE, timeout=SECONDS, **more)
    done.stderr = done.stderr.decode(errors='replace')
    return done


def model(**wanted):
    return os.path.join(oracle_models.make(**wanted), 'model.gguf')


def main():
    if not GALE:
        print('skipped: GALE_BINARY does not say where the program is')
        sys.exit(oracle_models.SKIP)
    why = oracle_models.missing()
    if why:
        print(f'skipped: {why}')
        sys.exit(oracle_models.SKIP)
    unittest.main()
