"""Processes that a benchmark starts and that end with it, also on ctrl-C and when it is killed; ports of loopback."""

import ctypes
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


def free_port():
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    return s.getsockname()[1]


def die_with_parent():
  ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Processes:
  """What was started, and stops with this."""

  def __init__(self, directory, cores):
    self.directory = directory
    self.cores = cores
    self.running = []

  def pinned(self, role, argv):
    core = self.cores.get(role)
    argv = list(map(str, argv))
    return argv if core is None else ['taskset', '-c', str(core), *argv]

  def start(self, role, name, argv, env=None):
    log = open(self.directory / f'{name}.log', 'wb')
    process = subprocess.Popen(self.pinned(role, argv), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                               env={**os.environ, **(env or {})}, preexec_fn=die_with_parent)
    self.running.append(process)
    return process

  def await_answer(self, process, name, url, seconds=20):
    """Until it answers HTTP at all."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
      if process.poll() is not None:
        break
      try:
        urllib.request.urlopen(url, timeout=2).close()
        return
      except urllib.error.HTTPError:
        return
      except OSError:
        time.sleep(0.05)
    log = (self.directory / f'{name}.log').read_text(errors='replace')[-2000:]
    raise SystemExit(f'{name} did not start:\n{log}')

  def stop(self):
    for process in reversed(self.running):
      process.terminate()
    for process in self.running:
      try:
        process.wait(10)
      except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    self.running = []
