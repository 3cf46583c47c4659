"""The manifests, put together once for the tests of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.cluster import Cluster
from tests.deploy.kustomize import kustomizations, rendered, written


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of deploy/, in which the example's secrets are written."""
    return written(tmp_path_factory.mktemp("manifests"))


@pytest.fixture(scope="session")
def clusters(tree: Path) -> dict[str, Cluster]:
    """Each folder that can be applied, by its path below deploy/k8s; ".": the one on top."""
    return {str(path.relative_to(tree / "k8s")): Cluster(rendered(path)) for path in kustomizations(tree)}


@pytest.fixture
def cluster(clusters: dict[str, Cluster]) -> Cluster:
    """The folder on top: gateways, Valkey, replicas."""
    return clusters["."]


@pytest.fixture
def example(clusters: dict[str, Cluster]) -> Cluster:
    """The same with all that can be added."""
    return clusters["example"]
