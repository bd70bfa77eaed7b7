"""Random models from tests/oracle for the Python tests, kept in a cache folder; and small edits of GGUF files."""
import hashlib
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.path.join(HERE, 'oracle')
SKIP = 77  # the exit status that CTest takes for "skipped"


def missing():
    """Why oracle models cannot be made here; '' if they can."""
    found = subprocess.run([sys.executable, '-c', 'import numpy'], capture_output=True)
    return '' if found.returncode == 0 else f'{sys.executable} has no numpy'


def make(arch='llama', variant=None, size='tiny', quant='f32', vocab=False, pre='gpt-2', overrides=(), seed=7, hf=None):
    """The folder with model.gguf and expected.* of such a model; made on first use. With hf also the folder hf/."""
    words = ['--arch', arch, '--size', size, '--quant', quant, '--seed', str(seed)]
    if variant:
        words += ['--variant', variant]
    for override in overrides:
        words += ['--override', override]
    if vocab:
        words += ['--vocab', '--pre', pre]
    if hf:
        words += ['--hf', hf]
    digest = hashlib.sha256(repr(words).encode())
    for folder, folders, files in sorted(os.walk(ORACLE)):
        folders[:] = [f for f in folders if f != '__pycache__']
        for name in sorted(files):
            if name.endswith('.py'):
                with open(os.path.join(folder, name), 'rb') as f:
                    digest.update(f.read())
    cache = os.environ.get('GALE_TEST_CACHE') or os.path.join(tempfile.gettempdir(), f'gale-oracle-{os.getuid()}')
    folder = os.path.join(cache, f'py-{arch}-{size}-{quant}-{digest.hexdigest()[:16]}')
    if not os.path.exists(folder):
        os.makedirs(cache, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=cache)
        environment = dict(os.environ, PYTHONPATH=ORACLE, PYTHONDONTWRITEBYTECODE='1')
        subprocess.run([sys.executable, '-m', 'oracle', 'make', *words, '--out', fresh], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        try:
            os.rename(fresh, folder)
        except OSError:  # another process was faster
            pass
    return folder


SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Gguf:
    """A GGUF file in parts that can be changed: keys as (type, payload), tensors as [name, shape, type, bytes]."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            self._data = f.read()
        self._at = 8
        tensors, keys = self._take('QQ')
        self.keys, self.tensors = {}, []
        for _ in range(keys):
            name = self._text()
            kind, = self._take('I')
            begin = self._at
            self._skip(kind)
            self.keys[name] = (kind, self._data[begin:self._at])
        for _ in range(tensors):
            name = self._text()
            dimensions, = self._take('I')
            shape = self._take(f'{dimensions}Q')
            kind, offset = self._take('IQ')
            self.tensors.append([name, shape, kind, offset])
        data = -(-self._at // 32) * 32
        ends = sorted(t[3] for t in self.tensors) + [len(self._data) - data]
        for t in self.tensors:
            t[3] = self._data[data + t[3]:data + next(e for e in ends if e > t[3])]

    def _take(self, layout):
        values = struct.unpack_from('<' + layout, self._data, self._at)
        self._at += struct.calcsize('<' + layout)
        return values

    def _text(self):
        length, = self._take('Q')
        self._at += length
        return self._data[self._at - length:self._at].decode()

    def _skip(self, kind):
        if kind == STRING:
            self._text()
        elif kind == ARRAY:
            element, count = self._take('IQ')
            for _ in range(count):
                self._skip(element)
        else:
            self._at += SIZES[kind]

    @staticmethod
    def _packed(text):
        return struct.pack('<Q', len(text.encode())) + text.encode()

    def set_text(self, key, value):
        self.keys[key] = (STRING, self._packed(value))
        return self

    def set_u32(self, key, value):
        self.keys[key] = (4, struct.pack('<I', value))
        return self

    def set_bool(self, key, value):
        self.keys[key] = (7, struct.pack('<?', value))
        return self

    def without(self, key):
        del self.keys[key]
        return self

    def rename(self, old, new):
        for t in self.tensors:
            if t[0] == old:
                t[0] = new
        return self

    def write(self, path):
        out = b'GGUF' + struct.pack('<IQQ', 3, len(self.tensors), len(self.keys))
        for key, (kind, payload) in self.keys.items():
            out += self._packed(key) + struct.pack('<I', kind) + payload
        offset = 0
        for name, shape, kind, data in self.tensors:
            out += self._packed(name) + struct.pack(f'<I{len(shape)}Q', len(shape), *shape)
            out += struct.pack('<IQ', kind, offset)
            offset += -(-len(data) // 32) * 32
        out += bytes(-len(out) % 32)
        for *_, data in self.tensors:
            out += data + bytes(-len(data) % 32)
        with open(path, 'wb') as f:
            f.write(out)
        return path
