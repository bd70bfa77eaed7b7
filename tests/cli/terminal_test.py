"""Chats on a pseudo-terminal: Ctrl-C stops the answer, then the program; Ctrl-D ends the chat; the terminal is restored;
a waiting chat uses no processor time."""
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import GALE, SECONDS, main, model, oracle_models  # noqa: E402

CTRL_C, CTRL_D = b'\x03', b'\x04'
PROMPT = b'> '


class Chat:
    """`gale run ...` as the foreground program of a terminal of its own."""

    def __init__(self, *words):
        self.seen = b''
        self.at = 0
        self.master, slave = pty.openpty()
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        # Returns once the program runs: a signal then is never for a copy of this one.
        self.process = subprocess.Popen([GALE, 'run', *words], stdin=slave, stdout=slave, stderr=slave,
                                        env=dict(os.environ, TERM='xterm'), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.pid = self.process.pid

    def read_some(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def wait_for(self, pattern):
        """Reads until the pattern comes up behind what was waited for before."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = re.compile(pattern, re.S).search(self.seen, self.at)
            if found:
                self.at = found.end()
                return found
            if not self.read_some(0.2) and self.finished():
                break
        raise AssertionError(f'{pattern!r} did not come; after {self.seen[:self.at][-200:]!r} came '
                             f'{self.seen[self.at:][-2000:]!r}')

    def send(self, data):
        os.write(self.master, data)

    def finished(self):
        return self.process.poll() is not None

    def exit_status(self):
        end = time.monotonic() + SECONDS
        while not self.finished():
            self.read_some(0.05)
            if time.monotonic() > end:
                raise AssertionError(f'the program did not end; the last was {self.seen[-400:]!r}')
        while self.read_some(0.05):
            pass
        return self.process.returncode

    def leave(self):
        """Ctrl-D ends the program, also one that comes while the terminal itself still edits lines; more do no harm."""
        for _ in range(20):
            if not self.finished():
                self.send(CTRL_D)
            for _ in range(5):
                if self.finished():
                    break
                self.read_some(0.1)
        return self.exit_status()

    def processor_seconds(self):
        with open(f'/proc/{self.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if not self.finished():
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Terminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.endless = os.path.join(cls.folder.name, 'endless.gguf')
        oracle_models.Gguf(model(arch='llama', size='small', vocab=True)).set_u32('llama.context_length', 1 << 20).write(
            cls.endless)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def chat(self, *words):
        chat = Chat(self.endless, *words)
        self.addCleanup(chat.close)
        return chat

    def test_ends_with_control_d(self):
        chat = self.chat('--max-tokens', '5')
        chat.wait_for(PROMPT)
        chat.send(b'hello\r')
        chat.wait_for(rb'answer \d+ tokens.*' + PROMPT)
        chat.send(b'\r   \r')  # empty lines ask nothing
        chat.wait_for(PROMPT + b'.*' + PROMPT)
        self.assertEqual(chat.leave(), 0)
        self.assertTrue(chat.restored())

    def test_control_c_stops_the_answer_and_then_leaves(self):
        chat = self.chat('--ignore-end')
        chat.wait_for(PROMPT)
        for _ in range(3):
            chat.send(b'go on\r')
            chat.wait_for(b'go on\r\n.{20}')
            chat.send(CTRL_C)
            # What is printed first may be a note, so the answer needn't have begun.
            chat.wait_for(rb'(?:answer \d+ tokens[^\n]*\(cancelled\)|\(cancelled before the answer).*' + PROMPT)
            self.assertFalse(chat.finished())
        chat.send(CTRL_C)  # at the prompt
        self.assertIn(chat.exit_status(), (0, 130))
        self.assertTrue(chat.restored())

    def test_the_session_stays_consistent(self):
        answers = []
        for _ in range(2):
            chat = self.chat('--ignore-end', '--temperature', '0', '--max-tokens', '30')
            chat.wait_for(PROMPT)
            chat.send(b'one\r')
            chat.wait_for(rb'answer 30 tokens.*' + PROMPT)
            chat.send('zwölf'.encode() + b'\r')  # what is no ASCII can be typed
            answers.append(chat.wait_for(r'(?:zwölf\r\n)+(.*)\r\nprompt .*'.encode() + PROMPT).group(1))
            self.assertEqual(chat.leave(), 0)
        self.assertEqual(answers[0], answers[1])

    def test_interrupt_twice(self):
        chat = self.chat('--ignore-end')
        chat.wait_for(PROMPT)
        chat.send(b'go on\r')
        chat.wait_for(b'go on\r\n.{5}')
        os.kill(chat.pid, signal.SIGINT)
        os.kill(chat.pid, signal.SIGINT)
        # Signals that come before the first was looked at are one; either way the next at the prompt leaves.
        end = time.monotonic() + SECONDS
        while not chat.finished() and not re.search(rb'cancelled.*' + PROMPT, chat.seen, re.S):
            self.assertLess(time.monotonic(), end, 'neither signal stopped the answer')
            chat.read_some(0.1)
        if not chat.finished():
            chat.send(CTRL_C)
        self.assertIn(chat.exit_status(), (0, 130))
        self.assertTrue(chat.restored())

    def test_interrupt_while_loading(self):
        chat = self.chat()
        os.kill(chat.pid, signal.SIGINT)
        self.assertIn(chat.exit_status(), (0, 130, -signal.SIGINT))  # the last: before there were handlers
        self.assertTrue(chat.restored())

    def test_message_that_does_not_fit(self):
        chat = self.chat('--context', '64', '--max-tokens', '5')
        chat.wait_for(PROMPT)
        chat.send(b'x' * 100 + b'\r')
        chat.wait_for(b'gale: error:.*context of 64.*' + PROMPT)
        chat.send(b'short\r')
        chat.wait_for(rb'answer \d+ tokens.*' + PROMPT)
        self.assertEqual(chat.leave(), 0)

    def test_waiting_uses_no_processor(self):
        chat = self.chat('--max-tokens', '5')
        chat.wait_for(PROMPT)
        chat.send(b'hello\r')
        chat.wait_for(rb'answer \d+ tokens.*' + PROMPT)
        time.sleep(0.5)
        before = chat.processor_seconds()
        time.sleep(1)
        self.assertLess(chat.processor_seconds() - before, 0.02)

    def test_no_template_no_chat(self):
        path = os.path.join(self.folder.name, 'plain.gguf')
        oracle_models.Gguf(self.endless).without('tokenizer.chat_template').write(path)
        chat = Chat(path)
        self.addCleanup(chat.close)
        self.assertEqual(chat.exit_status(), 1)
        self.assertIn(b'chat template', chat.seen)


main()
