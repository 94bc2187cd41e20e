#!/usr/bin/env python3
"""kubernetes_manifests_test.py TIDEGATE: the manifests of tools/package/kubernetes agree with the code, the docs and each other."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    print("SKIPPED: python3-yaml is not installed")
    sys.exit(77)

ROOT = Path(__file__).resolve().parent.parent.parent.parent
MANIFESTS = ROOT / "tools/package/kubernetes"
OVERLAYS = sorted(path.parent for path in MANIFESTS.glob("overlays/*/kustomization.yaml"))
TIDEGATE = sys.argv.pop() if len(sys.argv) > 1 else str(ROOT / "build/release/gateway/tidegate")


def longest_end():
    """Seconds that a gateway may take to end beyond shutdown_delay and shutdown_grace: for records, and for its replicas."""
    places = {"gateway/process/process.cc": "kRecordsPatience", "gateway/control/scaling_loop.h": "kClosePatience"}
    return sum(int(re.search(rf"{name} = std::chrono::seconds\((\d+)\)", (ROOT / file).read_text()).group(1)) for file, name in places.items())


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def read(*parts):
    return documents((MANIFESTS.joinpath(*parts)).read_text())


def rules_of(document):
    return {(group, resource, verb) for rule in document.get("rules", []) for group in rule["apiGroups"] for resource in rule["resources"]
            for verb in rule["verbs"]}


def rights(found):
    """{"Role": {(group, resource, verb)}, "ClusterRole": ...} of all documents."""
    out = {"Role": set(), "ClusterRole": set()}
    for document in found:
        if document.get("kind") in out:
            out[document["kind"]] |= rules_of(document)
    return out


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


class Manifests(unittest.TestCase):
    def setUp(self):
        self.gateway = read("base", "gateway.yaml")[0]
        self.pod = self.gateway["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]

    def test_the_rights_are_those_that_the_docs_name(self):
        blocks = [block for page in (ROOT / "docs").glob("*.md")
                  for block in re.findall(r"^```[^\n]*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL) if re.search(r"^kind: (Cluster)?Role$", block, re.MULTILINE)]
        self.assertTrue(blocks, "a page of docs/ lists the rights that the launcher needs")
        told = rights(document for block in blocks for document in documents(block))
        for kind, given in rights(self.given()).items():
            self.assertEqual(given - told[kind], set(), f"rights of a {kind} that no page of docs/ names")
            self.assertEqual(told[kind] - given, set(), f"rights that docs/ names and no {kind} gives")

    def given(self):
        return [document for file in sorted(MANIFESTS.glob("components/*/rights.yaml")) for document in documents(file.read_text())]

    def test_no_right_is_wild(self):
        found = rights(self.given())
        for right in found["Role"] | found["ClusterRole"]:
            self.assertNotIn("*", right)
        changes = {verb for _, _, verb in found["ClusterRole"]} - {"get", "list", "watch"}
        self.assertEqual(changes, set(), "in other namespaces it only reads")

    def test_each_right_is_bound_to_the_gateway(self):
        found = self.given()
        for role in (one for one in found if one["kind"] in ("Role", "ClusterRole")):
            bound = [one for one in found if one["kind"] == role["kind"] + "Binding" and one["roleRef"]["name"] == role["metadata"]["name"]]
            self.assertEqual([one["subjects"][0]["name"] for one in bound], ["tidegate"], role["metadata"]["name"])

    def test_without_a_component_a_gateway_has_no_token(self):
        self.assertIs(self.pod["automountServiceAccountToken"], False)
        self.assertIs(read("base", "service-account.yaml")[0]["automountServiceAccountToken"], False)

    def test_a_gateway_has_the_time_to_end(self):
        for overlay in OVERLAYS:
            server = read("overlays", overlay.name, "tidegate.yaml")[0]["server"]
            needs = seconds(server["shutdown_delay"]) + seconds(server["shutdown_grace"]) + longest_end()
            self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"], needs, overlay.name)
            probe = self.container["readinessProbe"]
            self.assertLess(probe["periodSeconds"] * probe["failureThreshold"], seconds(server["shutdown_delay"]), overlay.name)

    def test_a_pod_may_do_nothing_but_serve(self):
        inside = self.container["securityContext"]
        self.assertEqual((inside["allowPrivilegeEscalation"], inside["readOnlyRootFilesystem"], inside["capabilities"]),
                         (False, True, {"drop": ["ALL"]}))
        self.assertIs(self.pod["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(self.pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        user = str(self.pod["securityContext"]["runAsUser"])
        self.assertIn(f"UID = {user}\n", (ROOT / "tools/package/image").read_text(), "the user of the image")

    def test_probes_ask_the_admin_listener(self):
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        for overlay in OVERLAYS:
            server = read("overlays", overlay.name, "tidegate.yaml")[0]["server"]
            self.assertEqual((f"0.0.0.0:{ports['api']}", f"0.0.0.0:{ports['admin']}"), (server["listen"], server["admin"]))
        paths = {name: self.container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
        self.assertEqual({name: probe["path"] for name, probe in paths.items()},
                         {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"})
        self.assertEqual({probe["port"] for probe in paths.values()}, {"admin"})

    def test_each_configuration_is_valid(self):
        for overlay in OVERLAYS:
            # Files and variables that the cluster has.
            text = (overlay / "tidegate.yaml").read_text()
            text = re.sub(r"^  ca: .*$", "  ca: /etc/ssl/certs/ca-certificates.crt", text, flags=re.MULTILINE).replace("/var/lib/tidegate", "/tmp/tidegate-check-only")
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                done = subprocess.run([TIDEGATE, "check", file.name], capture_output=True, text=True,
                                      env={"PATH": "/usr/bin:/bin", "POSTGRES_PASSWORD": "x" * 20, "REDIS_PASSWORD": "x" * 20})
            self.assertEqual(done.returncode, 0, f"{overlay.name}: {done.stderr}")

    def test_each_node_serves_its_weights_as_the_command_and_the_configuration_say(self):
        pod = read("components", "weights", "serve.yaml")[0]["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertEqual(container["securityContext"], self.container["securityContext"])
        self.assertEqual(pod["securityContext"]["runAsUser"], self.pod["securityContext"]["runAsUser"], "the user of the pods that fill the store")
        self.assertIs(pod["automountServiceAccountToken"], False)
        options = subprocess.run([TIDEGATE, *container["args"][:2], "--help"], check=True, capture_output=True, text=True).stdout
        for word in container["args"][2:]:
            if word.startswith("--"):
                self.assertIn(word, options)
        port = container["ports"][0]
        self.assertEqual(port["containerPort"], port["hostPort"], "nodes are asked by their own addresses")
        self.assertIn(f"=:{port['hostPort']} ", options, "the default of --listen")
        self.assertIn(f"url: http://{{address}}:{port['hostPort']}\n", (ROOT / "conf/tidegate.yaml").read_text())

    def test_overlays_have_the_files_that_they_name(self):
        for file in MANIFESTS.rglob("kustomization.yaml"):
            document = documents(file.read_text())[0]
            named = document.get("resources", []) + [one for each in document.get("configMapGenerator", []) for one in each["files"]]
            named += [patch["path"] for patch in document.get("patches", []) if "path" in patch]
            for name in named:
                self.assertTrue((file.parent / name).exists(), f"{file}: {name}")


if __name__ == "__main__":
    unittest.main()
