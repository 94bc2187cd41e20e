"""What the tests of packages share: skipping with a reason, commands with a time limit, requests to a gateway."""

import ctypes
import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SKIPPED = 77  # ctest's SKIP_RETURN_CODE
CHAT = {"model": "chat-small", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def need_root(*tools):
    if os.geteuid() != 0:
        skip("it needs root")
    missing = [tool for tool in tools if subprocess.run(["sh", "-c", f"command -v {tool}"], capture_output=True).returncode != 0]
    if missing:
        skip(f"not on this machine: {', '.join(missing)}")


def build_folder():
    folder = Path(os.environ.get("TIDEGATE_BUILD", ROOT / "build/release"))
    if not (folder / "gateway/tidegate").exists() or not (folder / "tools/tidegate-engine").exists():
        skip(f"{folder} has no built tidegate and tidegate-engine; TIDEGATE_BUILD names another build")
    return folder


def run(*words, timeout=60, check=True, **options):
    """The finished command; its output is text. A failure shows what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_until(holds, what, seconds=30):
    until = time.monotonic() + seconds
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


def enter_network_of(pid):
    """Moves this process into the network namespace of another; before it makes threads."""
    clone_newnet = 0x40000000
    with open(f"/proc/{pid}/ns/net") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), clone_newnet) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def ask(port, method="GET", path="/livez", body=None, key=None, timeout=20, host="127.0.0.1"):
    """(status, headers, body) of one request on a connection of its own."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def answers(port, path="/livez", host="127.0.0.1"):
    try:
        return ask(port, path=path, timeout=5, host=host)[0] == 200
    except (OSError, http.client.HTTPException):
        return False
