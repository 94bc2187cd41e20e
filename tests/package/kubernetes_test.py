#!/usr/bin/env python3
"""The manifests on a real Kubernetes: applied with kubectl, in a namespace of the test's own, with the image of this build; the
gateway runs as a pod and answers a call.

  TIDEGATE_BUILD=build/release tests/package/kubernetes_test.py

TIDEGATE_TEST_KUBE names the script that starts the cluster; default: ../shared/kube/cluster beside the source tree. With
TIDEGATE_TEST_CLUSTER=DIR a cluster of it that runs already is used. What differs from the manifests is what this cluster lacks: pods
share the network of their node, volumes are empty folders, and the budget has the version that the server knows. Needs root. Exit
codes: 0 passed, 1 failed, 77 skipped, with the reason.
"""

import atexit
import json
import os
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import support
from support import ROOT, run

PORTS = {"api": 18480, "admin": 18490, "engine": 18400}
CONFIG = f"""
server: {{listen: "0.0.0.0:{PORTS['api']}", admin: "0.0.0.0:{PORTS['admin']}", state_dir: /var/lib/tidegate, shutdown_delay: 2s, shutdown_grace: 10s}}
admin: {{insecure: true}}
tenants: [{{name: default, models: ["*"]}}]
models: [{{name: chat-small, endpoints: [{{url: "http://127.0.0.1:{PORTS['engine']}", engine: vllm}}]}}]
"""
# What the test's cluster lacks: a network for pods, and volumes. The engine stands beside the gateway.
PATCH = f"""
- {{op: add, path: /spec/template/spec/hostNetwork, value: true}}
- {{op: remove, path: /spec/volumeClaimTemplates}}
- {{op: add, path: /spec/template/spec/volumes/-, value: {{name: state, emptyDir: {{}}}}}}
- {{op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}}
- {{op: replace, path: /spec/template/spec/containers/0/ports, value: [{{name: api, containerPort: {PORTS['api']}}}, {{name: admin, containerPort: {PORTS['admin']}}}]}}
- op: add
  path: /spec/template/spec/containers/-
  value:
    name: engine
    image: tidegate
    imagePullPolicy: Never
    command: [/usr/bin/tidegate-engine, --listen, 127.0.0.1, --port, "{PORTS['engine']}", --model, chat-small]
"""


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        support.need_root("kubectl", "ctr", "nsenter", "ip")
        cls.script = Path(os.environ.get("TIDEGATE_TEST_KUBE", ROOT.parent / "shared/kube/cluster"))
        if not cls.script.exists():
            support.skip(f"{cls.script} does not exist; TIDEGATE_TEST_KUBE names a script that starts a cluster")
        build = support.build_folder()
        cls.folder = Path(tempfile.mkdtemp(prefix="tidegate-kube-"))
        atexit.register(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.dir = os.environ.get("TIDEGATE_TEST_CLUSTER")
        if not cls.dir:
            support.need_root("etcd", "containerd", "runc")
            cls.dir = tempfile.mkdtemp(prefix="k", dir="/tmp")
            atexit.register(shutil.rmtree, cls.dir, ignore_errors=True)
            atexit.register(run, cls.script, "down", cls.dir, timeout=120, check=False)
            run(cls.script, "up", cls.dir, 1, 19400, 0, timeout=240)
        cls.namespace = f"tidegate-{os.getpid()}"
        tag = f"tidegate:test-{os.getpid()}"
        image = run(ROOT / "tools/package/image", "--build", build, "--out", cls.folder, "--tag", tag, timeout=180).stdout.split()[0]
        for node in sorted(Path(cls.dir).glob("n[0-9]*")):
            run("ctr", "-a", node / "cd.sock", "-n", "k8s.io", "images", "import", image, timeout=120)
            atexit.register(run, "ctr", "-a", node / "cd.sock", "-n", "k8s.io", "images", "rm", f"docker.io/library/{tag}", check=False)
        cls.tag = tag.split(":")[1]
        cls.kubectl("create", "namespace", cls.namespace)
        atexit.register(cls.kubectl, "delete", "namespace", cls.namespace, "--timeout=60s", timeout=90, check=False)

    @classmethod
    def kubectl(cls, *words, **options):
        return run(cls.script, "exec", cls.dir, "kubectl", *words, **options)

    def overlay(self, name):
        """A copy of the manifests, with an overlay of the test's own over that one."""
        tree = self.folder / "manifests"
        shutil.copytree(ROOT / "tools/package/kubernetes", tree, dirs_exist_ok=True)
        budget = tree / "base/disruption-budget.yaml"
        served = self.kubectl("api-versions").stdout.split()
        if "policy/v1" not in served:
            budget.write_text(budget.read_text().replace("apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n"))
        (tree / "overlays" / name / "tidegate.yaml").write_text(CONFIG)
        rights = tree / "components/launcher/rights.yaml"  # the names of a whole cluster: those of this run alone
        text = rights.read_text().replace("namespace: tidegate}", f"namespace: {self.namespace}}}")
        parts = text.split("---\n")
        rights.write_text("---\n".join(part.replace("name: tidegate-launcher", f"name: {self.namespace}") if "Cluster" in part else part for part in parts))
        kustomization = tree / "overlays" / name / "kustomization.yaml"
        text = kustomization.read_text().replace("namespace: tidegate", f"namespace: {self.namespace}").replace(
            "newName: registry.example.com/tidegate, newTag: 0.1.0", f"newName: docker.io/library/tidegate, newTag: {self.tag}").replace(
            "# components:", "components:")
        patch = "  - target: {kind: StatefulSet, name: tidegate}\n    patch: |-\n" + "".join(f"      {line}\n" for line in PATCH.strip().splitlines())
        text += ("" if "patches:" in text else "patches:\n") + patch
        kustomization.write_text(text)
        return kustomization.parent

    def test_one_gateway_runs_as_a_pod_and_serves(self):
        begun = time.monotonic()
        self.kubectl("apply", "-k", self.overlay("one"), timeout=60)
        atexit.register(self.kubectl, "delete", "clusterrole,clusterrolebinding", self.namespace, check=False)
        try:
            self.kubectl("-n", self.namespace, "rollout", "status", "statefulset/tidegate", "--timeout=90s", timeout=120)
        except AssertionError:
            print(self.kubectl("-n", self.namespace, "describe", "pods", check=False).stdout[-3000:])
            print(self.kubectl("-n", self.namespace, "logs", "tidegate-0", "-c", "tidegate", check=False).stdout[-2000:])
            raise
        pod = json.loads(self.kubectl("-n", self.namespace, "get", "pod", "tidegate-0", "-o", "json").stdout)
        key = self.kubectl("-n", self.namespace, "exec", "tidegate-0", "-c", "tidegate", "--", "/usr/bin/tidegate", "keys", "create",
                           "--config", "/etc/tidegate/tidegate.yaml", "--tenant", "default", "--name", "test").stdout.strip()
        settings = Path(f"/run/netns/kube{self.dir.replace('/', '-')}")
        address = pod["status"]["hostIP"]
        called = run("nsenter", f"--net={settings}", "python3", "-c",
                     f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import support\n"
                     f"print(support.ask({PORTS['api']}, 'POST', '/v1/chat/completions', support.CHAT, {key!r}, host={address!r})[0])")
        self.assertEqual(called.stdout.strip(), "200")
        print(f"from kubectl apply -k to the first answer: {time.monotonic() - begun:.1f} s")
        ready = run("nsenter", f"--net={settings}", "python3", "-c",
                    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import support\n"
                    f"print(support.answers({PORTS['admin']}, '/readyz', {address!r}))")
        self.assertEqual(ready.stdout.strip(), "True")

    def test_the_server_takes_three_gateways(self):
        self.kubectl("apply", "--dry-run=server", "-k", self.overlay("three"), timeout=60)


if __name__ == "__main__":
    unittest.main()
