"""The import boundary of the packages: who may import whom, and that Spark stays in one folder."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "eventide"

EVERYTHING = {
    path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path.is_dir() and path.name != "__pycache__")
}
# what connectors say of themselves, for those who plan with it
DECLARED = {"connectors.declaration", "connectors.registry"}
# package: (what of eventide, a package or a single module; which third-party packages)
MAY_IMPORT: dict[str, tuple[set[str], set[str]]] = {
    "secrets": (set(), set()),
    "errors": ({"secrets"}, set()),
    "eventtime": ({"errors"}, set()),
    "kernels": ({"errors", "eventtime", "plan.joins", "plan.modes", "plan.windows"}, {"pyarrow", "numpy"}),
    "tasks": (
        {"admission", "errors", "eventtime", "kernels", "storage.paths", "storage.results", "storage.stores"},
        {"pyarrow", "numpy", "sqlglot", "numba", "llvmlite"},
    ),
    "plan": (
        {"admission.options", "errors", "eventtime", "kernels", "storage.stores", "tasks"} | DECLARED,
        {"pyarrow", "sqlglot"},
    ),
    "sql": ({"admission.options", "errors", "eventtime", "plan", "secrets"} | DECLARED, {"sqlglot"}),
    "fluent": ({"admission.options", "connectors", "errors", "eventtime", "plan", "sql", "spark"}, {"sqlglot"}),
    "storage": ({"errors", "eventtime", "kernels"}, {"pyarrow", "hdfs_native"}),
    "admission": ({"errors", "eventtime", "kernels", "storage"}, {"numpy", "pyarrow"}),
    "connectors": (
        {"admission", "errors", "eventtime", "kernels", "plan", "result", "secrets", "storage", "tasks"},
        {"pyspark", "pyarrow", "numpy", "psycopg", "confluent_kafka", "deltalake", "fastavro", "google"},
    ),
    "result": ({"errors", "notebook"}, {"pyarrow", "pandas", "matplotlib"}),
    "spark": (
        {"admission", "connectors", "errors", "eventtime", "kernels", "plan", "tasks", "sql", "storage", "result"},
        {"pyspark", "pyarrow", "numpy", "pandas"},
    ),
}
LIBRARIES = {"pyarrow", "pandas", "numpy", "sqlglot", "typer", "rich", "prompt_toolkit", "pygments"}
ANYTHING_BUT_SPARK = (EVERYTHING, LIBRARIES)
MAY_IMPORT["notebook"] = (EVERYTHING, LIBRARIES | {"IPython", "matplotlib"})
MAY_IMPORT["diagnose"] = (EVERYTHING, LIBRARIES | {"opentelemetry"})
MAY_IMPORT["web"] = (
    {"diagnose", "errors", "eventtime", "kernels", "plan", "result", "secrets", "sql", "storage"},
    {"pyarrow", "starlette", "uvicorn", "prometheus_client"},
)
# Seen by type checkers only, so not an import when the program runs.
TYPES_ONLY = {"database": {"pyspark", "opentelemetry"}, "fluent": {"pyspark"}}
HEAVY = {"pyspark", "py4j", "pandas", "pyarrow", "duckdb", "numba", "sqlglot", "prompt_toolkit"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def type_checking_lines(tree: ast.Module) -> set[int]:
    """The lines below `if TYPE_CHECKING:`."""
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    ]
    return {
        line
        for block in blocks
        for node in block.body
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def imported(tree: ast.Module, file: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import of a file, at whatever depth it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import"
            module = node.module or ""
            if module == "eventide":
                yield from ((node.lineno, f"eventide.{name.name}") for name in node.names)
            else:
                yield node.lineno, module


def package_of(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", modules(), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_imports_only_what_its_package_may(file: Path) -> None:
    package = package_of(file)
    inside, outside = MAY_IMPORT.get(package, ANYTHING_BUT_SPARK)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_types = type_checking_lines(tree)
    for line, module in imported(tree, file):
        top, _, rest = module.partition(".")
        if top == "eventide":
            target = rest.partition(".")[0]
            allowed_here = target == package or target in inside or rest in inside
            assert target not in EVERYTHING or allowed_here, f"{file}:{line}: {package} must not import {module}"
        elif top not in sys.stdlib_module_names:
            allowed = outside | (TYPES_ONLY.get(package, set()) if line in for_types else set())
            assert top in allowed, f"{file}:{line}: {package} must not import {module}"


def modules_loaded_by(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_eventide_does_not_import_pyspark() -> None:
    assert not modules_loaded_by("import eventide") & {"pyspark", "py4j"}


HELP = """
import contextlib, sys
from eventide.cli.app import main
with contextlib.suppress(SystemExit):
    main(["--help"])
"""


@pytest.mark.parametrize("code", ["import eventide.cli.app", HELP], ids=["import", "--help"])
def test_the_command_line_loads_nothing_heavy_before_a_command_runs(code: str) -> None:
    """So that help is there at once."""
    assert not modules_loaded_by(code) & HEAVY


def test_of_local_speed_others_know_its_switch_only() -> None:
    parts = "eventide.spark.local"
    for file in modules():
        if file.parent != ROOT / "spark" / "local":
            for line, module in imported(ast.parse(file.read_text(encoding="utf-8")), file):
                assert not module.startswith(f"{parts}."), f"{file}:{line}: {module} is a part of local speed"
    assert imports_of(ROOT / "spark" / "session.py", parts) == {"speed"}


def imports_of(file: Path, package: str) -> set[str]:
    """The names that a file imports from a package."""
    return {
        name.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == package
        for name in node.names
    }
