"""Chats on a pseudo-terminal: Ctrl-C stops the answer, then the program; Ctrl-D ends the chat; the terminal is restored;
a waiting chat uses no processor time."""
import os
import pty
import re
import select
import signal
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
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(self.master)
            import fcntl
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(slave, descriptor)
            os.environ['TERM'] = 'xterm'
            os.execv(GALE, [GALE, 'run', *words])
        self.status = None

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
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def exit_status(self):
        end = time.monotonic() + SECONDS
        while not self.finished():
            self.read_some(0.05)
            if time.monotonic() > end:
                raise AssertionError('the program did not end')
        while self.read_some(0.05):
            pass
        return self.status

    def processor_seconds(self):
        with open(f'/proc/{self.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if not self.finished():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
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
        chat.send(CTRL_D)
        self.assertEqual(chat.exit_status(), 0)
        self.assertTrue(chat.restored())

    def test_control_c_stops_the_answer_and_then_leaves(self):
        chat = self.chat('--ignore-end')
        chat.wait_for(PROMPT)
        for _ in range(3):
            chat.send(b'go on\r')
            chat.wait_for(b'go on\r\n.{20}')
            chat.send(CTRL_C)
            chat.wait_for(rb'answer \d+ tokens[^\n]*\(cancelled\).*' + PROMPT)
            self.assertFalse(chat.finished())
        chat.send(CTRL_C)  # at the prompt
        self.assertIn(chat.exit_status(), (0, 130))
        self.assertTrue(chat.restored())

    def test_the_session_stays_consistent(self):
        # The second answer after an interrupted first one is the one that a program gives that was told to stop there.
        chat = self.chat('--ignore-end', '--temperature', '0', '--max-tokens', '30')
        chat.wait_for(PROMPT)
        chat.send(b'one\r')
        chat.wait_for(rb'answer 30 tokens.*' + PROMPT)
        chat.send(b'two\r')
        expected = chat.wait_for(rb'two\r\n(.*)\r\nprompt \d+ tokens.*' + PROMPT).group(1)
        chat.send(CTRL_D)
        self.assertEqual(chat.exit_status(), 0)
        # The same with an interrupted prompt line before it.
        again = self.chat('--ignore-end', '--temperature', '0', '--max-tokens', '30')
        again.wait_for(PROMPT)
        again.send(b'one\r')
        again.wait_for(rb'answer 30 tokens.*' + PROMPT)
        again.send(b'two\r')
        got = again.wait_for(rb'two\r\n(.*)\r\nprompt \d+ tokens.*' + PROMPT).group(1)
        self.assertEqual(got, expected)

    def test_interrupt_twice(self):
        chat = self.chat('--ignore-end')
        chat.wait_for(PROMPT)
        chat.send(b'go on\r')
        chat.wait_for(b'go on\r\n.{5}')
        os.kill(chat.pid, signal.SIGINT)
        os.kill(chat.pid, signal.SIGINT)
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
        chat.send(CTRL_D)
        self.assertEqual(chat.exit_status(), 0)

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
