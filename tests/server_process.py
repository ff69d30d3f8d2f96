"""Starts build/tandem as a process of its own for tests, and stops it."""
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BINARY = Path(os.environ.get("TANDEM_BINARY", ROOT / "build/tandem"))
READY = re.compile(r"ready (http://([^:/\s]+):(\d+)) model=(\S+)")
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 60


class ServerProcess:
    """`tandem serve MODEL --port 0`, ready to be asked; use it in a with statement.

    url, host, port and model come from the line that the server prints when it is ready.
    """

    def __init__(self, *arguments, model="default", env=None):
        self._command = [str(BINARY), "serve", model, "--port", "0", *arguments]
        self._env = {**os.environ, **(env or {})}
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(self._command, env=self._env, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        if not ready.wait(START_SECONDS_MAX) or not hasattr(self, "url"):
            self.__exit__()
            raise RuntimeError(f"{' '.join(self._command)} is not ready:\n" + "".join(self.lines))
        return self

    def _read(self, ready):
        for line in self.process.stdout:
            self.lines.append(line)
            found = READY.search(line)
            if found and not ready.is_set():
                self.url, self.host, self.port = found[1], found[2], int(found[3])
                self.model = found[4]
                ready.set()
        ready.set()  # it ended

    def resident_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(STOP_SECONDS_MAX)
