"""Damaged models, files and directories, never crash, hang or take the memory away: cuts and random corruptions of every small model.

usage: corrupt.py LOAD_DRIVER [--full] [--cuts N] [--corruptions N] [--seed N]
--full: 200 cuts and 2000 corruptions of every model; without it a few of each.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import oracle_models  # noqa: E402

sys.path.insert(0, oracle_models.ORACLE)

FEW = [dict(arch='llama', variant='llama3', vocab=True), dict(arch='gemma3', quant='q4_0', vocab=True),
       dict(arch='llama', hf='fp8', vocab=True)]
ALL = FEW + [dict(arch='llama', variant='tied'), dict(arch='gemma3')] + [
    dict(arch=arch, quant=quant) for arch in ('llama', 'gemma3')
    for quant in ('f16', 'bf16', 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_K', 'q5_K', 'q6_K')] + [
    dict(arch=arch, hf=hf) for arch in ('llama', 'gemma3') for hf in ('bf16', 'fp8-channel', 'nvfp4', 'nvfp4-pack')]


def in_two_files(directory, out):
    """The same model with its tensors in two files and an index."""
    from oracle import safetensors_io as st
    os.makedirs(out, exist_ok=True)
    tensors = list(st.read(os.path.join(directory, 'model.safetensors')).items())
    weights = {}
    for part, some in enumerate((tensors[:len(tensors) // 2], tensors[len(tensors) // 2:]), 1):
        name = f'model-{part:05}-of-00002.safetensors'
        st.write(os.path.join(out, name), dict(some))
        weights |= {tensor: name for tensor, _ in some}
    with open(os.path.join(out, 'model.safetensors.index.json'), 'w') as f:
        json.dump({'metadata': {}, 'weight_map': weights}, f)
    for name in ('config.json', 'generation_config.json'):
        if os.path.exists(os.path.join(directory, name)):
            with open(os.path.join(directory, name)) as source, open(os.path.join(out, name), 'w') as target:
                target.write(source.read())
    return out


def damage(driver, model, cuts, corruptions, seed, folder):
    """Runs the driver over one model; returns its last line, or raises with what went wrong and how to see it again."""
    name = os.path.basename(model)
    copy = os.path.join(folder, f'damaged-{name}')
    shutil.rmtree(copy, ignore_errors=True)  # the directory of the model before
    words = [driver, model, copy, str(cuts), str(corruptions), str(seed)]
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
            made = oracle_models.make(**wanted)
            models = [os.path.join(made, 'model.gguf')]
            if 'hf' in wanted:
                models = [os.path.join(made, 'hf'), in_two_files(os.path.join(made, 'hf'), os.path.join(folder, 'two'))]
            for model in models:
                result = damage(options.driver, model, cuts, corruptions, options.seed, folder)
                print(' '.join(f'{k}={v}' for k, v in wanted.items()), os.path.basename(model), result, flush=True)


main()
