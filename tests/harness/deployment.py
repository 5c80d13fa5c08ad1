"""What is in deploy/, as the tests of it read it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
OVERLAYS = KUBERNETES / "overlays"
CONFIGURATION = BASE / "configuration.env"
MEBIBYTE = 1 << 20
PART_OF = {"app.kubernetes.io/part-of": "waggle"}
NAME_LABEL = "app.kubernetes.io/name"

Document = dict[str, Any]

_WAYS_TO_THE_POD: dict[str, tuple[str, ...]] = {
    "StatefulSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
}
_UNITS = {"": 1, "k": 1 << 10, "Ki": 1 << 10, "m": 1 << 20, "Mi": 1 << 20, "g": 1 << 30, "Gi": 1 << 30}


@dataclass(frozen=True)
class Workload:
    """A StatefulSet, a Deployment, a CronJob or a Pod, which all have one container here.

    Attributes:
        name: Without the prefix "waggle-".
        document: The whole of it.
        pod: Its pod's spec.
        labels: Of its pod; the base's own label with them.
    """

    name: str
    document: Document
    pod: Document
    labels: dict[str, str]

    @property
    def container(self) -> Document:
        """The container."""
        (container,) = self.pod["containers"]
        return dict(container)

    @property
    def ports(self) -> dict[str, int]:
        """Name -> number."""
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", ())}

    def memory(self, which: str) -> int:
        """Bytes of "requests" or "limits"."""
        return byte_count(self.container["resources"][which]["memory"])


def documents(path: Path) -> list[Document]:
    """All documents of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def base_documents() -> list[Document]:
    """All objects of the base."""
    names = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [document for name in names for document in documents(BASE / name)]


def of_kind(found: list[Document], *kinds: str) -> Iterator[Document]:
    """Those of these kinds."""
    return (document for document in found if document["kind"] in kinds)


def workloads(found: list[Document]) -> dict[str, Workload]:
    """Name -> what runs, pods that are alone included."""
    result = {}
    for document in of_kind(found, "StatefulSet", "Deployment", "CronJob", "Pod"):
        name = document["metadata"]["name"].removeprefix("waggle-")
        pod = document
        for part in _WAYS_TO_THE_POD[document["kind"]]:
            pod = pod[part]
        result[name] = Workload(name, document, pod["spec"], {**pod["metadata"]["labels"], **PART_OF})
    return result


def services() -> dict[str, Document]:
    """Name -> spec of the Services of the base."""
    found = of_kind(base_documents(), "Service")
    return {document["metadata"]["name"].removeprefix("waggle-"): document["spec"] for document in found}


def read_env(path: Path) -> dict[str, str]:
    """The variables of a file of NAME=VALUE lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def kustomizations() -> list[Path]:
    """Every directory that kustomize can be given."""
    return sorted(path.parent for path in KUBERNETES.rglob("kustomization.yaml"))


@functools.cache
def render(directory: Path) -> list[Document]:
    """What `kubectl apply -k` would send, to be left as it is; skips the test where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl, which renders the overlays, is not on this machine")
    done = subprocess.run([kubectl, "kustomize", str(directory)], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def byte_count(text: str) -> int:
    """Bytes of a quantity, such as 512Mi in a manifest or 512m in compose.yaml."""
    found = re.fullmatch(r"(\d+)([a-zA-Z]*)", text)
    assert found is not None, text
    return int(found[1]) * _UNITS[found[2]]


def port_of(address: str) -> int:
    """Port of `host:port`, of `dns:///` as well."""
    return int(address.rpartition(":")[2])
