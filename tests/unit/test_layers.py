"""Imports point downwards only (the design, section 2)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import memfs

ALLOWED = {
    "model": frozenset(),
    "stores": frozenset({"model"}),
    "server": frozenset({"stores", "model"}),
    "replica": frozenset({"stores", "model"}),
    "views": frozenset({"replica", "stores", "model"}),
    "fuse": frozenset({"views", "replica", "stores", "model"}),
    "shadow": frozenset({"transfer", "views", "replica", "stores", "model"}),
    "transfer": frozenset({"views", "replica", "stores", "model"}),
    "cli": frozenset({"fuse", "shadow", "transfer", "views", "replica", "server", "stores", "model"}),
}
"""What each folder of the package may import besides itself."""

TOP_LEVEL = {"__init__": frozenset[str](), "__main__": frozenset({"cli"})}
"""The same for the modules that lie in no folder."""


def imported_modules(tree: ast.Module, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name, as its parts, of all that a module of `package` imports, at any depth and in any form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            origin = package[: len(package) - node.level + 1] if node.level else ()
            origin += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*origin, alias.name)


def violations(root: Path) -> list[str]:
    """Each import below the package folder `root` that the layers forbid, and each folder or module that has no layer."""
    found = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        layer = place.parts[0] if len(place.parts) > 1 else place.stem
        allowed = ALLOWED.get(layer) if len(place.parts) > 1 else TOP_LEVEL.get(layer)
        if allowed is None:
            found.append(f"{place}: {layer} is no layer: give it a place in the design and in this test")
            continue
        package = (root.name, *place.parts[:-1])
        for line, name in imported_modules(ast.parse(path.read_text(encoding="utf-8")), package):
            if name[0] != root.name or len(name) == 1:
                continue
            target = name[1]
            if target.startswith("__") or target == layer or target in allowed:
                continue
            found.append(f"{place}:{line}: {layer} must not import {'.'.join(name)}")
    return found


def test_imports_point_downwards() -> None:
    root = Path(memfs.__file__).parent
    assert [folder.name for folder in root.iterdir() if (folder / "__init__.py").exists()], "the package was not found"
    assert violations(root) == []


UPWARDS = sorted((layer, other) for layer in ALLOWED for other in ALLOWED if other != layer and other not in ALLOWED[layer])


def package_with(root: Path, module: str, source: str) -> Path:
    """A package that has one empty module a layer, and `source` as `module`."""
    package = root / "memfs"
    for layer in ALLOWED:
        (package / layer).mkdir(parents=True)
        (package / layer / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / module).parent.mkdir(parents=True, exist_ok=True)
    (package / module).write_text(source, encoding="utf-8")
    return package


@pytest.mark.parametrize("form", ["import memfs.{}.x", "from memfs import {}", "from memfs.{} import x", "from ..{} import x"])
@pytest.mark.parametrize(("layer", "other"), UPWARDS)
def test_every_forbidden_import_is_found(tmp_path: Path, layer: str, other: str, form: str) -> None:
    source = f"def late() -> None:\n    {form.format(other)}\n"
    (violation,) = violations(package_with(tmp_path, f"{layer}/module.py", source))
    assert violation.startswith(f"{layer}/module.py:2: {layer} must not import memfs.{other}")


def test_downward_imports_and_those_of_other_packages_are_free(tmp_path: Path) -> None:
    lines = [
        "import os, memfs, pyfuse3",
        "from memfs import __version__",
        "from memfs.model import ids",
        "from . import tree",
        "from .. import stores",
    ]
    assert violations(package_with(tmp_path, "replica/module.py", "\n".join(lines))) == []


@pytest.mark.parametrize("module", ["utils/helper.py", "helper.py"])
def test_what_has_no_layer_is_found(tmp_path: Path, module: str) -> None:
    (violation,) = violations(package_with(tmp_path, module, ""))
    assert "is no layer" in violation


def test_no_layer_reaches_another_through_a_cycle() -> None:
    for layer, allowed in ALLOWED.items():
        for other in allowed:
            assert layer not in ALLOWED[other]
            assert ALLOWED[other] <= allowed
