"""docs/spark_api.md lists what the code uses of Spark beyond its public API, and the installed Spark has all of it."""

from __future__ import annotations

import ast
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "eventide"
PAGE = (ROOT / "docs" / "spark_api.md").read_text(encoding="utf-8")
SPARK = Path(pyspark.__file__).parent
MODULES = ("pyspark.cloudpickle", "pyspark.daemon", "pyspark.worker")
OWNERS = {
    "_gateway": pyspark.SparkContext,
    "_jvm": pyspark.SparkContext,
    "_active_spark_context": pyspark.SparkContext,
    "_instantiatedSession": pyspark.sql.SparkSession,
}
SET_BY_INIT = {"_jsparkSession": "sql/session.py", "_jsc": "sql/session.py"}
SET_BY_INIT |= {"_jc": "sql/classic/column.py", "_jdf": "sql/classic/dataframe.py"}
SINCE_4_2 = {"_streamingCheckpointManager": pyspark.sql.SparkSession}  # whoever asks for it does without, too
NAMES = {*OWNERS, *SET_BY_INIT, *SINCE_4_2}
CLASS = re.compile(r"org\.(?:apache|codehaus)\.(?:\w+\.)*?[A-Z]\w*")


def listed(pattern: str) -> set[tuple[str, str]]:
    """(file, name) of the page's tables."""
    found = set()
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].endswith(".py`"):
            found |= {(cells[1].strip("`"), name) for name in re.findall(rf"`({pattern})`", cells[2])}
    return found


def modules() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def private_names() -> set[str]:
    """Those of Spark's classes, as far as their sources show them."""
    files = ("core/context.py", *SET_BY_INIT.values())
    texts = [(SPARK / file).read_text() for file in files]
    return {name for text in texts for name in re.findall(r"(?:self|cls|SparkContext)\.(_[a-z]\w+)", text)}


def used(text: str, names: set[str]) -> set[str]:
    """Private names of Spark's that a module asks anything but itself for."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            base = node.value.id if isinstance(node.value, ast.Name) else ast.unparse(node.value)
            if base not in ("self", "cls"):
                found.add(node.attr)
        if isinstance(node, ast.Constant) and node.value in names:
            found.add(str(node.value))
    return found


def test_private_names_are_those_of_the_page() -> None:
    names = private_names() | {*SINCE_4_2}
    assert names >= NAMES
    found = {(file, name) for file, text in modules().items() for name in used(text, names) if file[:4] != "sql/"}
    assert {each for each in found if each[1] in NAMES} == listed(r"_\w+")
    others = {each for each in found if each[1] not in NAMES}
    own = {name for text in modules().values() for name in re.findall(r"(?:self|def|cls)[. ](_[a-z]\w+)", text)}
    assert {each for each in others if each[1] not in own} == set(), "not on the page"


def test_classes_of_the_jvm_are_those_of_the_page() -> None:
    texts = {file: ast.unparse(ast.parse(text)) for file, text in modules().items()}
    assert {(file, name) for file, text in texts.items() for name in CLASS.findall(text)} == listed(r"org\.[\w.]+")


def test_private_modules_are_those_of_the_page() -> None:
    found = set()
    for file, text in modules().items():
        imported = re.findall(r"from pyspark import ([\w, ]+)", text)
        named = {f"pyspark.{name}" for each in imported for name in re.split(r", ", each)}
        named |= set(re.findall(r'"(pyspark\.\w+)"', text))
        found |= {(file, name) for name in named & set(MODULES)}
    assert found == listed(r"pyspark\.\w+")


@pytest.mark.parametrize("name", sorted({*OWNERS, *SET_BY_INIT}))
def test_the_installed_spark_has_the_name(name: str) -> None:
    if name in OWNERS:
        assert hasattr(OWNERS[name], name)
    else:
        assert re.search(rf"self\.{name}\b", (SPARK / SET_BY_INIT[name]).read_text())


@pytest.mark.skipif(pyspark.__version__ < "4.2", reason="is not there yet")
@pytest.mark.parametrize("name", sorted(SINCE_4_2))
def test_a_newer_spark_has_the_name(name: str) -> None:
    assert hasattr(SINCE_4_2[name], name)


@pytest.mark.parametrize("module", MODULES)
def test_the_installed_spark_has_the_module(module: str) -> None:
    assert find_spec(module) is not None


def test_the_installed_spark_has_the_classes() -> None:
    wanted = {name.replace(".", "/") + ".class" for _, name in listed(r"org\.[\w.]+")}
    for jar in (SPARK / "jars").glob("*.jar"):
        if re.match(r"spark-(sql|catalyst)|hadoop-client-api|janino", jar.name):
            with zipfile.ZipFile(jar) as archive:
                wanted -= set(archive.namelist())
    assert wanted == set()
