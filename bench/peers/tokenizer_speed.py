"""Speed of tokenizers on one thread, beside Hugging Face's and tiktoken's: reading a vocabulary, encoding a text.

usage: tokenizer_speed.py BUILD/bench/tokenizer_bench TEXT [VOCABULARY ...]
The vocabularies and packages are those of tests/peers/tokenizer_references.py. Times are of the thread, best of five.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tests', 'peers'))
import tokenizer_references  # noqa: E402

NAMES = ['qwen3.6-json', 'llama3-json', 'deepseek', 'mistral-v3-json', 'qwen3.6', 'llama3', 'o200k', 'tekken-240911', 'mistral-v3']


def best(work, times=5):
    seconds = []
    for _ in range(times):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return min(seconds)


def main():
    program, text_path, *names = sys.argv[1:]
    text = open(text_path, encoding='utf-8').read()[:700_000]  # bpe-openai takes no more than 200,000 tokens
    print('| vocabulary | the other library | it encodes | Gale encodes | Gale reads and creates |\n|---|---|---|---|---|')
    with tempfile.TemporaryDirectory() as folder:
        for name in names or NAMES:
            reference = tokenizer_references.open_reference(name, folder)
            theirs = len(text.encode()) / 1e6 / best(lambda: reference.encode(text, False))
            rows = json.loads(subprocess.run(
                [program, '--benchmark_format=json', '--benchmark_min_time=0.2', '--benchmark_repetitions=5', reference.path, text_path],
                capture_output=True, text=True, check=True).stdout)['benchmarks']
            rows = [r for r in rows if r['run_type'] == 'iteration']
            ms = {key: min(r['cpu_time'] for r in rows if r['name'].startswith(key)) for key in ('read', 'create', 'encode')}
            ours = len(text.encode()) / 1e3 / ms['encode']
            print(f'| {name} | {reference.library} | {theirs:.1f} MB/s | {ours:.1f} MB/s | {ms["read"]:.0f} + {ms["create"]:.0f} ms |',
                  flush=True)


if __name__ == '__main__':
    main()
