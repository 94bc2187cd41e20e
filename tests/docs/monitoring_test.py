#!/usr/bin/env python3
"""Checks conf/monitoring: every metric and label that its rules and its dashboard name exists, and every alert has a runbook.

  tests/docs/monitoring_test.py names     metrics and labels, by docs/metrics.md, which a test compares with a gateway
  tests/docs/monitoring_test.py rules     the rules and their tests, by promtool

Exit codes: 0 all is well, 1 something is not, 77 promtool is not installed.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "conf/monitoring"

# Labels that Prometheus adds, and metrics that are its own.
ADDED = {"job", "instance"}
OWN = {"up": set()}
WORDS = {"by", "without", "on", "ignoring", "and", "or", "unless", "bool", "group_left", "group_right", "offset"}
SUFFIXES = {"histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()}, "summary": {"_sum": set(), "_count": set()}}

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(?!\s*\(|[\w:])")


def known_metrics():
    """name -> labels, with the series of histograms and summaries."""
    page = (ROOT / "docs/metrics.md").read_text()
    known = dict(OWN)
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", page, re.MULTILINE):
        labels = set(re.findall(r"`(\w+)`", labels))
        for suffix, more in SUFFIXES.get(kind, {"": set()}).items():
            known[name + suffix] = labels | more
    return known


def scalars(text):
    """(key, value) of the lines of a YAML file as these are written: plain values and folded blocks."""
    lines = text.splitlines()
    found = []
    for at, line in enumerate(lines):
        match = re.match(r"^(\s*)(?:- )?(\w+): *(.*)$", line)
        if not match or line.lstrip().startswith("#"):
            continue
        indent, key, value = len(match.group(1)), match.group(2), match.group(3)
        if value == ">-":
            block = []
            for more in lines[at + 1:]:
                if more.strip() and len(more) - len(more.lstrip()) <= indent:
                    break
                block.append(more.strip())
            value = " ".join(block).strip()
        elif len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found.append((key, value))
    return found


def check_expression(expression, known, where, problems):
    """Returns the labels of what the expression names."""
    labels = set(ADDED)
    plain = GROUPING.sub(" ", STRING.sub('""', expression))
    plain = re.sub(r"\[[^\]]*\]", " ", plain)
    for name, matchers in SELECTOR.findall(plain):
        if name in WORDS or re.fullmatch(r"\d.*", name):
            continue
        if name not in known:
            problems.append(f"{where}: there is no metric {name}")
            continue
        labels |= known[name]
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers or ""):
            if label not in known[name] | ADDED:
                problems.append(f"{where}: {name} has no label {label}")
    for group in GROUPING.findall(expression):
        for label in filter(None, (part.strip() for part in group.split(","))):
            if label not in labels:
                problems.append(f"{where}: nothing in it has a label {label}")
    return labels


def check_recording(known, problems):
    rules = scalars((FOLDER / "recording-rules.yaml").read_text())
    record, count = "", 0
    for key, value in rules:
        if key == "record":
            record = value
        elif key == "expr":
            labels = check_expression(value, known, record, problems)
            grouped = re.search(r"\bby\s*\(([^)]*)\)", value)
            kept = {part.strip() for part in grouped.group(1).split(",")} if grouped else labels if "(" not in value else set()
            if "histogram_quantile" in value:
                kept.discard("le")
            for name in re.findall(r"tidegate:[\w:]+", value):
                kept |= known.get(name, set())
            known[record] = kept
            count += 1
    return count


def check_alerts(known, problems):
    operations = (ROOT / "docs/operations.md").read_text()
    headings = set(re.findall(r"^#+ (Tidegate\w+)$", operations, re.MULTILINE))
    alert, labels, alerts = "", set(), []
    for key, value in scalars((FOLDER / "alert-rules.yaml").read_text()):
        if key == "alert":
            alert = value
            alerts.append(alert)
        elif key == "expr":
            labels = check_expression(value, known, alert, problems)
        elif key == "summary":
            for label in re.findall(r"\$labels\.(\w+)", value):
                if label not in labels:
                    problems.append(f"{alert}: its summary names a label {label}")
        elif key == "runbook" and value != f"docs/operations.md#{alert.lower()}":
            problems.append(f"{alert}: its runbook is {value}")
    for name in alerts:
        if name not in headings:
            problems.append(f"docs/operations.md has no section {name}")
    for name in headings - set(alerts):
        problems.append(f"docs/operations.md has a section {name}, and there is no such alert")
    if len(alerts) != len(set(alerts)):
        problems.append("two alerts have one name")
    return len(alerts)


def check_dashboard(known, problems):
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    count, ids = 0, set()
    for panel in dashboard["panels"]:
        if panel["id"] in ids:
            problems.append(f"two panels have the id {panel['id']}")
        ids.add(panel["id"])
        for target in panel.get("targets", []):
            labels = check_expression(target["expr"], known, panel["title"], problems)
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                if label not in labels:
                    problems.append(f"{panel['title']}: its legend names a label {label}")
            count += 1
    for variable in dashboard["templating"]["list"]:
        values = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", ""))
        if variable["type"] == "query" and (not values or values.group(2) not in known.get(values.group(1), set())):
            problems.append(f"the variable {variable['name']} asks for {variable.get('definition')}")
    for annotation in dashboard["annotations"]["list"]:
        check_expression(annotation["expr"], known, annotation["name"], problems)
    return count


def check_names():
    problems = []
    known = known_metrics()
    records = check_recording(known, problems)
    alerts = check_alerts(known, problems)
    targets = check_dashboard(known, problems)
    if not (records and alerts and targets):
        problems.append(f"{records} recording rules, {alerts} alerts and {targets} targets were found")
    print(f"{records} recording rules, {alerts} alerts, {targets} targets of the dashboard")
    return problems


def run_promtool():
    promtool = shutil.which("promtool")
    if promtool is None:
        print("skipped: promtool is not installed (tools/install_packages test)")
        sys.exit(77)
    problems = []
    for call in (["check", "rules", "recording-rules.yaml", "alert-rules.yaml"], ["check", "config", "prometheus.yaml"],
                 ["test", "rules", str(Path(__file__).parent / "monitoring_rules_test.yaml")]):
        done = subprocess.run([promtool, *call], cwd=FOLDER, capture_output=True, text=True)
        print(done.stdout.strip())
        if done.returncode != 0:
            problems.append(f"promtool {' '.join(call)}: {done.stdout}{done.stderr}")
    return problems


def main(arguments):
    if arguments not in (["names"], ["rules"]):
        print(__doc__.strip())
        return 2
    problems = check_names() if arguments == ["names"] else run_promtool()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
