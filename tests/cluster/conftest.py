"""One cluster for all tests of this folder: a master and two workers with a core each.

Its workers have all packages that this process has, but another Eventide in front of them, which can do nothing: so
this one has to reach them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.standalone import Cluster, running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    other = folder / "other"
    other.mkdir()
    (other / "eventide.py").write_text('__version__ = "0.0.1"\nraise ImportError("another version")\n')
    packages = os.pathsep.join([str(other), *filter(None, sys.path)])
    with running(folder, environment={"PYTHONPATH": packages}) as made:
        yield made
