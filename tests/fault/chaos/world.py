"""The real gateway with a model of its own replicas and jobs beside them, in a folder of its own."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

KEY = "a-bootstrap-key-of-enough-characters"
DEVICES = 8
START_PATIENCE = 60
CALL_PATIENCE = 5


class World:
    def __init__(self, tidegate, engine, folder):
        self.tidegate, self.engine = os.path.abspath(tidegate), os.path.abspath(engine)
        self.folder = folder or tempfile.mkdtemp(prefix="tidegate-chaos-")
        os.makedirs(self.folder, exist_ok=True)
        self.state = os.path.join(self.folder, "state")
        self.config = os.path.join(self.folder, "tidegate.yaml")
        self.policy = os.path.join(self.folder, "chat.yaml")
        self.log = os.path.join(self.folder, "gateway.log")
        self.gateway = None
        self.port = self.admin_port = 0
        self.disk = False
        self.on_exit = "keep"
        # Apart from those of other harnesses on this machine, and from what the system gives out by itself.
        self.first_port = 20_000 + os.getpid() % 95 * 100
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "work"), os.path.join(self.folder, "work"))
        os.makedirs(self.state)
        self.mount()
        with open(os.path.join(self.folder, "key"), "w", encoding="ascii") as file:
            file.write(KEY)
        os.chmod(file.name, 0o600)
        self.write(1, 2)

    # ---- The disk: one of its own where this process may mount one, so that it can be filled.

    def mount(self):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tidegate-chaos", self.state],
                                 capture_output=True, check=False)
        self.disk = mounted.returncode == 0

    def fill_disk(self):
        with open(os.path.join(self.state, "filler"), "wb", buffering=0) as file:
            block = b"f" * 65536
            try:
                while file.write(block):
                    pass
            except OSError:
                pass

    def empty_disk(self):
        filler = os.path.join(self.state, "filler")
        if os.path.exists(filler):
            os.remove(filler)

    # ---- Configuration.

    def write(self, least, most, members=1):
        with open(self.policy + ".new", "w", encoding="utf-8") as file:
            command = [self.engine, "--port", "{port}", "--model", "chat-small", "--preset", "instant"]
            workers = ""
            if members > 1:
                command += ["--workers", str(members - 1), "--workers-at", "{leader_port}"]
                worker = [self.engine, "--preset", "instant", "--worker-of", "{leader}:{leader_port}"]
                workers = f"worker_command: {json.dumps(worker)}, "
            file.write(f"model: chat-small\nreplicas: {{min: {least}, max: {most}}}\n"
                       "scaling: {policy: demand, window: 5s, hold: 1s}\nidle: {scale_to_zero_after: 1s}\n"
                       f"placement: {{members: {members}, devices: [{{kind: gpu, count: 1}}]}}\n"
                       f"replica: {{engine: vllm, command: {json.dumps(command)}, {workers}env: {{CHAOS: \"{self.folder}\"}}}}\n")
        os.replace(file.name, self.policy)
        with open(self.config + ".new", "w", encoding="utf-8") as file:
            file.write(f"server: {{listen: 127.0.0.1:0, admin: 127.0.0.1:0, threads: 2, state_dir: {self.state}, "
                       "shutdown_delay: 0s, shutdown_grace: 1s}\n"
                       "tenants: [{name: demo, models: [\"*\"]}]\nmodels: [{name: chat-small}]\n"
                       "auth: {anonymous_tenant: demo}\n"
                       "ledger: {min_free_bytes: 4MiB}\n"
                       f"admin: {{bootstrap_key: \"file:{self.folder}/key\"}}\n"
                       f"scaling: {{policies: {self.policy}, ports: {self.first_port}-{self.first_port + 99}, "
                       f"on_exit: {self.on_exit}, runs: {{same_user: true}}, cluster: [{{kind: gpu, count: {DEVICES}}}]}}\n")
        os.replace(file.name, self.config)

    # ---- The gateway.

    def start(self):
        log = open(self.log, "ab")
        at = log.tell()
        self.gateway = subprocess.Popen([self.tidegate, "serve", "--config", self.config], stdout=log, stderr=log,
                                        cwd=self.folder, start_new_session=True)
        log.close()
        deadline = time.time() + START_PATIENCE
        while time.time() < deadline and self.gateway.poll() is None:
            with open(self.log, "rb") as file:
                file.seek(at)
                for line in file:
                    if b'"event":"serving"' in line:
                        serving = json.loads(line)
                        self.port, self.admin_port = (int(serving[name].rsplit(":", 1)[1]) for name in ("listen", "admin"))
                        return True
            time.sleep(0.02)
        return False

    @property
    def is_up(self):
        return self.gateway is not None

    def kill(self):
        self.gateway.kill()
        self.gateway.wait()
        self.gateway = None

    def stop(self, patience):
        """The exit code, or None when it did not end in time and was killed."""
        self.gateway.send_signal(signal.SIGTERM)
        try:
            return self.gateway.wait(patience)
        except subprocess.TimeoutExpired:
            self.gateway.kill()
            self.gateway.wait()
            return None
        finally:
            self.gateway = None

    def reload(self):
        self.gateway.send_signal(signal.SIGHUP)

    # ---- Its APIs.

    def call(self, port, method, path, body=None):
        """(status, JSON); (0, None) when it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_PATIENCE)
        try:
            connection.request(method, path, body and json.dumps(body),
                               {"authorization": f"Bearer {KEY}", "content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, ValueError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def admin(self, method, path, body=None):
        return self.call(self.admin_port, method, "/admin/v1" + path, body) if self.is_up else (0, None)

    def chat(self):
        body = {"model": "chat-small", "max_tokens": 3, "messages": [{"role": "user", "content": "hello"}]}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_PATIENCE)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def submit(self, text):
        """The job's id, or None."""
        status, answer = self.admin("POST", "/jobs", {"job": text, "file": "chaos.yaml"})
        if status == 422 or status == 400:
            raise ValueError(f"the job file is refused: {answer}")
        return answer["jobs"][0] if status == 201 else None

    def submit_batch(self, seconds, stray):
        return self.submit(self.job("batch", "batch.sh", f'SECONDS_OF_WORK: "{seconds:.2f}", STRAY: "{"yes" if stray else ""}"',
                                    "work: batch\n"))

    def submit_training(self, members):
        script = os.path.join(self.folder, "work", "train.sh")
        return self.submit(self.job("training", "train.sh", "", f"members: {members}\ncheckpoint: {{signal: USR1, grace: 10s, "
                                    f"save: 1s, interval: 10m, resume: [/bin/sh, {script}, --resume]}}\n"))

    def job(self, name, script, env, more):
        env = f'CHAOS: "{self.folder}"' + (", " + env if env else "")
        return (f"name: {name}\ncommand: [/bin/sh, {os.path.join(self.folder, 'work', script)}]\nenv: {{{env}}}\n"
                f"devices: [{{kind: gpu, count: 1}}]\nrestarts: 1000\nstop_grace: 3s\n{more}")

    def jobs(self):
        """Id -> job, or None while that is not known."""
        jobs, path = {}, "/jobs?limit=1000"
        status, answer = self.admin("GET", path)
        if status != 200:
            return None
        jobs.update((job["id"], job) for job in answer["data"])
        return jobs

    # ---- Its ledger.

    def verify(self):
        """What is wrong with it, in no or one text."""
        done = subprocess.run([self.tidegate, "audit", "verify", "--config", self.config], capture_output=True, text=True,
                              check=False)
        return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()]

    def records(self, *kinds):
        out = os.path.join(self.folder, "export.jsonl")
        if os.path.exists(out):
            os.remove(out)
        done = subprocess.run([self.tidegate, "audit", "export", "--config", self.config, "--out", out,
                               "--kind", ",".join(kinds)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"audit export: {done.stdout}{done.stderr}")
        if not os.path.exists(out):
            return []
        with open(out, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def said(self, event):
        """What the gateway said of such events in its log. A line that a kill has cut is passed over."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    said = json.loads(line)
                except ValueError:
                    continue
                if isinstance(said, dict) and said.get("event") == event:
                    yield said

    def close(self, keep):
        """Ends the gateway. `keep`: the folder stays, to look into a failure."""
        if self.gateway is not None:
            self.gateway.send_signal(signal.SIGCONT)
            self.kill()
        if keep:
            if self.disk:  # what stands in memory is copied, for the file system goes
                shutil.copytree(self.state, self.state + ".kept", dirs_exist_ok=True)
        if self.disk:
            subprocess.run(["umount", "-l", self.state], check=False)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
