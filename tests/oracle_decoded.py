"""Writes what every weight of a Hugging Face directory is, as numpy decodes it: F32, with the names and rows of a GGUF file.

usage: oracle_decoded.py DIRECTORY OUT.safetensors
Families without a table of names in Gale keep the directory's names.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'oracle'))
from oracle import hf, safetensors_io as st  # noqa: E402
from oracle.archs import MODULES  # noqa: E402


def pairs(x, head):
    """Rows (i, i + head/2) of each head in GGUF's order: next to each other."""
    return x.reshape(-1, 2, head // 2, x.shape[1]).swapaxes(1, 2).reshape(x.shape)


def named_as_gguf(config, arrays):
    module = next(m for m in MODULES.values() if config['model_type'] in m.MODEL_TYPES)
    c, _ = hf.load(config, arrays)
    change = {'': lambda x: x, 'rot': lambda x: pairs(x, config['head_dim']), 'minus1': lambda x: x + 1}
    out = {g: change[kind](arrays[h]) for g, h, kind in module.hf_names(c) if h in arrays}
    if hasattr(module, 'hf_extra'):
        module.hf_extra(c, config, out, arrays)
    return out


def main(directory, out):
    config, arrays = hf.read(directory)
    if config['model_type'] in ('llama', 'gemma3_text'):
        arrays = named_as_gguf(config, arrays)
    else:  # experts in MXFP4 are read transposed
        packed = {k.removesuffix('_blocks') for k in st.read(os.path.join(directory, 'model.safetensors'))
                  if k.endswith('_blocks')}
        arrays = {k: x.swapaxes(1, 2) if k in packed else x for k, x in arrays.items()}
    st.write(out + '.new', {k: st.encode(np.asarray(x, np.float32), 'F32') for k, x in arrays.items()})
    os.replace(out + '.new', out)


main(*sys.argv[1:])
