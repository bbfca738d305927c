"""The files that start the container: each by the tool that reads it, where that is installed."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..runner.shell import ROOT, Shell
from .podman import UNIT

pytestmark = pytest.mark.all
_KUSTOMIZE = ROOT / "conf/kustomize"
_OVERLAYS = ("kernel", "vfio")
_GENERATOR = Path("/usr/lib/systemd/system-generators/podman-system-generator")
_KUBERNETES = "1.30"


def _first(shell: Shell, *programs: str) -> str:
    """The first of these that is installed; otherwise the test is skipped."""
    path = shell.environment["PATH"]
    found = next((program for program in programs if shutil.which(program, path=path)), None)
    return found or pytest.skip(f"none of these is installed: {', '.join(programs)}")


def test_containerfile(shell: Shell) -> None:
    shell(_first(shell, "hadolint"), ROOT / "conf/container/Containerfile", seconds=60)


def test_quadlet(shell: Shell, tmp_path: Path) -> None:
    """Podman's generator makes a unit of it, without a word about a key that it does not know."""
    if not _GENERATOR.exists():
        pytest.skip("podman has no quadlets here: that takes 4.4 or later")
    shutil.copy(UNIT, tmp_path)
    done = shell(_GENERATOR, "-dryrun", environment={"QUADLET_UNIT_DIRS": str(tmp_path)}, seconds=60)
    assert "ExecStart=/usr/bin/podman run" in done.out
    assert "nsupported" not in done.err, done.err


def _documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def _rendered(shell: Shell, overlay: str) -> list[dict[str, Any]]:
    program = _first(shell, "kustomize", "kubectl")
    words = ("build",) if program == "kustomize" else ("kustomize",)
    # Those that do not tell the version of theirs have one that is too old.
    if program == "kubectl" and "kustomize" not in shell("kubectl", "version", "--client").out.lower():
        pytest.skip("the kustomize of this kubectl is too old: that takes kubectl 1.24 or later")
    return _documents(shell(program, *words, _KUSTOMIZE / overlay, seconds=60).out)


def _validate(documents: list[dict[str, Any]]) -> list[str]:
    """Those that Kubernetes' own schemas know are right, and no key is unknown; returns their kinds."""
    kubernetes = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    known = [document for document in documents if document["apiVersion"] in ("v1", "apps/v1")]
    for document in known:
        kubernetes.validate(document, _KUBERNETES, strict=True)
    return sorted(str(document["kind"]) for document in known)


def test_base_is_valid() -> None:
    """Each file by itself."""
    documents = [
        document
        for file in sorted((_KUSTOMIZE / "base").glob("*.yaml"))
        if file.name != "kustomization.yaml"
        for document in _documents(file.read_text())
    ]
    assert _validate(documents) == ["Deployment", "Namespace", "Service"]
    listed = yaml.safe_load((_KUSTOMIZE / "base/kustomization.yaml").read_text())["resources"]
    assert {*listed, "kustomization.yaml"} == {file.name for file in (_KUSTOMIZE / "base").iterdir()}


def test_monitor_finds_the_service() -> None:
    """Label and port are the service's, whose selector and port are the pod's."""
    read = partial(_one, _KUSTOMIZE / "base")
    monitor, service, deployment = read("servicemonitor"), read("service"), read("deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (endpoint,), (port,) = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert port["targetPort"] in {one["name"] for one in container["ports"]}


def _one(folder: Path, name: str) -> Any:
    (document,) = _documents((folder / f"{name}.yaml").read_text())
    return document


@pytest.mark.parametrize("overlay", _OVERLAYS)
def test_overlay_is_valid(overlay: str, shell: Shell) -> None:
    """As kustomize puts it together: the pod has the rights of its kind of port, and no others."""
    documents = _rendered(shell, overlay)
    assert _validate(documents) == ["ConfigMap", "Deployment", "Namespace", "Service"]
    kinds = {document["kind"]: document for document in documents}
    assert kinds["ServiceMonitor"]["spec"]["endpoints"]
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"]["drop"] == ["ALL"]
    expected = {"kernel": ["NET_RAW", "NET_ADMIN"], "vfio": ["IPC_LOCK"]}[overlay]
    assert rights["capabilities"]["add"] == expected
    # What the pod may, the program before the appliance takes.
    assert [f"--ambient-caps={','.join(f'+{name.lower()}' for name in expected)}"] == [
        word for word in container["command"] if word.startswith("--ambient-caps")
    ]
    assert container["image"] == "localhost/pascaline:latest"
    (volume,) = (one for one in pod["volumes"] if one["name"] == "configuration")
    assert volume["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"] != "pascaline"
    assert ("hugepages-2Mi" in container["resources"]["limits"]) == (overlay == "vfio")
    assert bool(pod.get("hostNetwork")) == (overlay == "kernel")


@pytest.mark.parametrize("overlay", _OVERLAYS)
def test_configuration_is_accepted(overlay: str, pascaline: Path, shell: Shell) -> None:
    """Its page listens where the probes and Prometheus ask."""
    file = _KUSTOMIZE / overlay / "appliance.toml"
    shell(pascaline, "check", "--elsewhere", file, seconds=60)
    assert 'listen = "0.0.0.0:9464"' in file.read_text()
