"""Manifests are what Kubernetes takes: by its schemas, and by the rules that hold for every one of ours."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import kubernetes_validate.utils
import pytest
import yaml

from services.runtime.version import VERSION
from tests.harness.deployment import KUBERNETES, OVERLAYS, documents, kustomizations, of_kind, render, workloads

NEWEST = kubernetes_validate.latest_version()
# Kinds of others, whose schemas are with who installs them.
WITHOUT_SCHEMA = {
    ("cert-manager.io/v1", "Certificate"),
    ("cert-manager.io/v1", "Issuer"),
    ("monitoring.coreos.com/v1", "PodMonitor"),
}
OF_KUSTOMIZE = {"Component", "Kustomization"}

PARTS = ("", "admin", "operator", "backup")
RENDERED = [OVERLAYS / overlay / part for overlay in ("one-node", "production") for part in PARTS]


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """Schemas are files of megabytes, which the validator reads for each object anew."""
    with pytest.MonkeyPatch.context() as patch:
        read = kubernetes_validate.utils.schema_contents
        patch.setattr(kubernetes_validate.utils, "schema_contents", functools.cache(read))
        yield


def check_schema(document: dict[str, Any]) -> None:
    if (document["apiVersion"], document["kind"]) not in WITHOUT_SCHEMA:
        kubernetes_validate.validate(document, NEWEST, strict=True)


def label(path: Path) -> str:
    return path.relative_to(KUBERNETES).as_posix()


def resource_files() -> list[Path]:
    """Files that hold whole objects; patches are judged by what is rendered with them."""
    files = []
    for directory in kustomizations():
        kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
        files += [directory / name for name in kustomization.get("resources", ()) if (directory / name).is_file()]
    return files


@pytest.mark.parametrize("path", resource_files(), ids=label)
def test_every_object_fits_the_newest_schema(path: Path) -> None:
    """Nothing is missing, nothing is unknown, and kinds without a schema are the ones that are named here."""
    found = documents(path)
    assert found
    for document in found:
        check_schema(document)


@pytest.mark.parametrize("directory", kustomizations(), ids=label)
def test_every_reference_of_a_kustomization_is_there(directory: Path) -> None:
    """Files and directories that it names exist, and no manifest lies in it that nobody takes in."""
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))
    assert kustomization["kind"] in OF_KUSTOMIZE
    named = {*kustomization.get("resources", ()), *kustomization.get("components", ())}
    named |= {patch["path"] for patch in kustomization.get("patches", ())}
    for generator in kustomization.get("configMapGenerator", ()):
        named |= set(generator["envs"])
    assert [] == sorted(name for name in named if not (directory / name).exists())
    lying = {path.name for path in directory.iterdir() if path.is_file()} - {"kustomization.yaml"}
    assert lying == {name for name in named if (directory / name).is_file()}


@pytest.mark.parametrize("directory", RENDERED, ids=label)
def test_what_an_overlay_renders_fits_the_newest_schema(directory: Path) -> None:
    """With all patches put in, in one namespace, each image by the tag of this version."""
    found = render(directory)
    for document in found:
        check_schema(document)
        assert document["kind"] == "Namespace" or "waggle" == document["metadata"]["namespace"]
    images = {workload.container["image"] for workload in workloads(found).values()}
    assert images
    assert {VERSION} == {image.rpartition(":")[2] for image in images}


@pytest.mark.parametrize("overlay", ["one-node", "production"])
def test_images_are_named_in_one_place_of_an_overlay(overlay: str) -> None:
    """All that reads the store runs from the same image, so that none does it with older code."""
    images = {
        workload.container["image"]
        for part in PARTS
        for workload in workloads(render(OVERLAYS / overlay / part)).values()
    }
    assert 2 == len(images)  # the suite's and the edge's


@pytest.mark.parametrize("directory", RENDERED, ids=label)
def test_every_pod_fits_the_restricted_standard(directory: Path) -> None:
    """As the namespace enforces it, and on top of that: nothing to write but volumes, no token of Kubernetes."""
    for workload in workloads(render(directory)).values():
        pod, container = workload.pod, workload.container
        assert (True, 10001, 10001) == tuple(
            pod["securityContext"][name] for name in ("runAsNonRoot", "runAsUser", "runAsGroup")
        )
        assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
        assert {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        } == container["securityContext"]
        assert (False, False) == (pod["automountServiceAccountToken"], pod["enableServiceLinks"])
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert "/tmp" == mounts["tmp"]["mountPath"]
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
        secrets = [volume for volume in pod["volumes"] if "secret" in volume]
        # Readable by the group of the process, and by nobody else.
        assert {0o440} >= {volume["secret"]["defaultMode"] for volume in secrets}
        assert all(mounts[volume["name"]]["readOnly"] for volume in secrets)


@pytest.mark.parametrize("overlay", ["one-node", "production"])
def test_what_the_first_store_needs_can_be_applied_alone(overlay: str) -> None:
    """The label that the documented command selects by is on these three, and on nothing that runs."""
    chosen = [
        document["kind"]
        for document in render(OVERLAYS / overlay)
        if document["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "foundation"
    ]
    assert ["Namespace", "PersistentVolumeClaim", "ServiceAccount"] == sorted(chosen)


def test_production_keeps_every_stateless_process_twice() -> None:
    """By its count or by its autoscaler, never by both, and a drain of nodes takes one at a time."""
    found = render(OVERLAYS / "production")
    scaled = {
        item["spec"]["scaleTargetRef"]["name"]: item["spec"]["minReplicas"]
        for item in of_kind(found, "HorizontalPodAutoscaler")
    }
    assert {"waggle-retrieval", "waggle-gateway"} == set(scaled)
    for deployment in of_kind(found, "Deployment"):
        name, count = deployment["metadata"]["name"], deployment["spec"].get("replicas")
        assert (None if name in scaled else 2) == count
        assert 2 == scaled.get(name, count)
        assert {"maxUnavailable": 0, "maxSurge": 1} == deployment["spec"]["strategy"]["rollingUpdate"]
    budgets = {
        item["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]: item["spec"]["maxUnavailable"]
        for item in of_kind(found, "PodDisruptionBudget")
    }
    assert budgets == {item["metadata"]["name"]: 1 for item in of_kind(found, "Deployment")}


@pytest.mark.parametrize("overlay", ["one-node", "production"])
def test_the_store_has_one_owner(overlay: str) -> None:
    """One replica, of a kind that ends the old pod before it starts the new one, and no autoscaler."""
    (storage,) = of_kind(render(OVERLAYS / overlay), "StatefulSet")
    assert ("waggle-storage", 1, "RollingUpdate") == (
        storage["metadata"]["name"],
        storage["spec"]["replicas"],
        storage["spec"]["updateStrategy"]["type"],
    )
