"""llama.cpp through the low-level calls of llama-cpp-python: one model, one context, one sequence; run as a program,
one measurement of it in a process of its own.

    python3 bench/peers/llama_peer.py bench|first|prompts|info '{"model": ..., ...}'      prints JSON
"""
import array
import ctypes
import json
import os
import resource
import statistics
import sys
import time

import llama_cpp as lc

FLASH_ATTENTION = {"auto": lc.LLAMA_FLASH_ATTN_TYPE_AUTO, "off": lc.LLAMA_FLASH_ATTN_TYPE_DISABLED,
                   "on": lc.LLAMA_FLASH_ATTN_TYPE_ENABLED}


@lc.llama_log_callback
def _silent(_level, _text, _data):
    pass


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def some_tokens(count, vocabulary):
    """The tokens of `gale bench`: random to look at, the same in every run."""
    tokens, state = [], 12345
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        tokens.append((state >> 8) % vocabulary)
    return tokens


class Llama:
    """Everything is as llama.cpp chooses by default, except what is asked for here."""

    def __init__(self, model, threads, context=0, batch=512, flash="auto", vocabulary_only=False):
        lc.llama_log_set(_silent, ctypes.c_void_p(0))
        lc.llama_backend_init()
        params = lc.llama_model_default_params()
        params.vocab_only = vocabulary_only
        self.model = lc.llama_model_load_from_file(os.fsencode(model), params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.vocabulary = lc.llama_vocab_n_tokens(self.vocab)
        if vocabulary_only:
            return
        params = lc.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = batch
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = FLASH_ATTENTION[flash]
        params.no_perf = True
        self.context = lc.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"llama.cpp cannot make a context for {model} with flash attention {flash}")
        self.memory = lc.llama_get_memory(self.context)
        self.batch_size = batch
        self.batch = lc.llama_batch_init(batch, 0, 1)
        self.position = 0

    def tokenize(self, text):
        data = text.encode()
        tokens = (lc.llama_token * (len(data) + 8))()
        count = lc.llama_tokenize(self.vocab, data, len(data), tokens, len(tokens), True, False)
        if count < 0:
            raise RuntimeError("llama.cpp cannot turn the text into tokens")
        return list(tokens[:count])

    def fill_batch(self, tokens, every):
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = token
            batch.pos[i] = self.position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = every or i + 1 == len(tokens)

    def run_batch(self):
        """One pass over the filled batch; returns when its logits are there."""
        status = lc.llama_decode(self.context, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode gave {status}")
        logits = lc.llama_get_logits(self.context)  # waits for the computation
        self.position += self.batch.n_tokens
        return logits

    def append(self, tokens, every=False):
        logits = None
        for start in range(0, len(tokens), self.batch_size):
            self.fill_batch(tokens[start:start + self.batch_size], every)
            logits = self.run_batch()
        return logits

    def rewind(self, position):
        if not lc.llama_memory_seq_rm(self.memory, 0, position, -1):
            raise RuntimeError(f"llama.cpp cannot go back to position {position}")
        self.position = position

    def save(self, path):
        token = (lc.llama_token * 1)()
        if lc.llama_state_seq_save_file(self.context, os.fsencode(path), 0, token, 1) == 0:
            raise RuntimeError(f"llama.cpp cannot save its cache to {path}")

    def load(self, path, position):
        token, count = (lc.llama_token * 1)(), ctypes.c_size_t(0)
        if lc.llama_state_seq_load_file(self.context, os.fsencode(path), 0, token, 1, ctypes.byref(count)) == 0:
            raise RuntimeError(f"llama.cpp cannot load its cache from {path}")
        self.position = position


def timed_pass(llama, tokens, every):
    """Seconds of one pass; filling the batch is Python's work and isn't counted."""
    llama.fill_batch(tokens, every)
    start = time.perf_counter()
    llama.run_batch()
    return time.perf_counter() - start


def bench(job):
    """Prefill, decoding by depth and passes by columns; the same passes as `gale bench`, median seconds of each.

    job["state"]: a file that keeps the filled cache of a depth for the next round ('{depth}' in its name is replaced).
    """
    depths, passes, columns, prefill = job["depths"], job["passes"], job["columns"], job["prefill"]
    llama = Llama(job["model"], job["threads"], job["context"], 512, job["flash"])
    tokens = some_tokens(max([prefill, *depths]) + passes + columns, llama.vocabulary)

    def decode_passes(depth):
        return [timed_pass(llama, [tokens[depth + i]], False) for i in range(passes)]

    decode_passes(0)  # warm up
    llama.rewind(0)
    out = {"decode": {}, "columns": {}}
    if prefill:
        start = time.perf_counter()
        llama.append(tokens[:prefill])
        out["prefill"] = time.perf_counter() - start
        llama.rewind(0)
    for n in range(1, columns + 1):
        times = []
        for _ in range(max(1, passes // 4)):
            times.append(timed_pass(llama, tokens[:n], True))
            llama.rewind(0)
        out["columns"][n] = statistics.median(times)
    for depth in depths:
        state = job["state"].replace("{depth}", str(depth)) if depth and job.get("state") else None
        if state and os.path.exists(state):
            llama.load(state, depth)
        else:
            llama.append(tokens[:depth])
            if state:
                llama.save(state)
        out["decode"][depth] = statistics.median(decode_passes(depth))
        llama.rewind(0)
    return out


def first_token(job):
    """Seconds from here, with Python and the library loaded, to the first token after a prompt; the peak of memory."""
    before = peak_bytes()
    start = time.perf_counter()
    llama = Llama(job["model"], job["threads"], job["context"], 512, job["flash"])
    tokens = llama.tokenize(job["prompt"])
    logits = llama.append(tokens)
    greedy = lc.llama_sampler_init_greedy()
    token = lc.llama_sampler_sample(greedy, llama.context, -1)
    piece = ctypes.create_string_buffer(64)
    lc.llama_token_to_piece(llama.vocab, token, piece, len(piece), 0, True)
    seconds = time.perf_counter() - start
    assert logits
    return {"seconds": seconds, "tokens": len(tokens), "peak_bytes": peak_bytes(), "python_bytes": before}


def prompts(job):
    """For each wanted number of tokens a beginning of the text that has exactly so many, or as near as can be."""
    llama = Llama(job["model"], 1, vocabulary_only=True)
    text, out = job["text"], {}
    for wanted in job["counts"]:
        low, high = 0, len(text)
        while low < high:  # the count hardly ever falls when the text grows
            middle = (low + high) // 2
            low, high = (middle + 1, high) if len(llama.tokenize(text[:middle])) < wanted else (low, middle)
        near = range(max(1, low - 12), min(len(text), low + 12) + 1)
        end = min(near, key=lambda n: abs(len(llama.tokenize(text[:n])) - wanted))
        out[wanted] = {"text": text[:end], "tokens": len(llama.tokenize(text[:end]))}
    return out


def logits(model, threads, tokens, flash="auto"):
    """Logits of every position as one float32 array [tokens x vocabulary] (an array.array)."""
    llama = Llama(model, threads, len(tokens), 512, flash)
    out = array.array("f")
    for start in range(0, len(tokens), 512):
        part = tokens[start:start + 512]
        values = llama.append(part, every=True)
        out.frombytes(ctypes.string_at(values, len(part) * llama.vocabulary * 4))
    return out


def info(_job):
    return {"version": lc.__version__, "system": lc.llama_print_system_info().decode().strip(" |")}


if __name__ == "__main__":
    run = {"bench": bench, "first": first_token, "prompts": prompts, "info": info}[sys.argv[1]]
    print(json.dumps(run(json.loads(sys.argv[2]))))
