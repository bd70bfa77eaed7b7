"""Damaged model files never crash, hang or take the memory away: cuts and random corruptions of every small model.

usage: corrupt.py LOAD_DRIVER [--full] [--cuts N] [--corruptions N] [--seed N]
--full: 200 cuts and 2000 corruptions of every file; without it a few of each.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import oracle_models  # noqa: E402

FEW = [dict(arch='llama', variant='llama3', vocab=True), dict(arch='gemma3', quant='q4_0', vocab=True)]
ALL = FEW + [dict(arch='llama', variant='tied'), dict(arch='gemma3')] + [
    dict(arch=arch, quant=quant) for arch in ('llama', 'gemma3')
    for quant in ('f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_K', 'q5_K', 'q6_K')]


def damage(driver, model, cuts, corruptions, seed, folder):
    """Runs the driver over one model; returns its last line, or raises with what went wrong and how to see it again."""
    words = [driver, os.path.join(model, 'model.gguf'), os.path.join(folder, 'damaged.gguf'), str(cuts),
             str(corruptions), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, errors='replace')
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines and lines[-1].startswith('done'):
        return lines[-1]
    how = f'signal {-done.returncode}' if done.returncode < 0 else f'status {done.returncode}'
    raise SystemExit(f'FAILED ({how}) at: {lines[-1] if lines else "the start"}\n{done.stderr[-6000:]}\n'
                     f'again: {" ".join(words)}')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('driver')
    parser.add_argument('--full', action='store_true')
    parser.add_argument('--cuts', type=int)
    parser.add_argument('--corruptions', type=int)
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args()
    why = oracle_models.missing()
    if why:
        print(f'skipped: {why}')
        sys.exit(oracle_models.SKIP)
    cuts = options.cuts if options.cuts is not None else 200 if options.full else 20
    corruptions = options.corruptions if options.corruptions is not None else 2000 if options.full else 60
    with tempfile.TemporaryDirectory() as folder:
        for wanted in ALL if options.full else FEW:
            result = damage(options.driver, oracle_models.make(**wanted), cuts, corruptions, options.seed, folder)
            print(' '.join(f'{k}={v}' for k, v in wanted.items()), result, flush=True)


main()
