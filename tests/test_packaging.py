"""pyproject.toml names every package of the tree, and every distribution that the code imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
FOLDERS = {"viking_kernels": "kernels", "viking_rpc": "viking_rpc"}

#: Comes with numba, which says which one fits.
IMPLIED = {"llvmlite"}


def normal(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def imported_modules() -> set[str]:
    found: set[str] = set()
    for folder in FOLDERS.values():
        for path in (ROOT / folder).rglob("*.py"):
            if "content" in path.relative_to(ROOT).parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_package_is_named() -> None:
    expected = {
        ".".join((name, *path.parent.relative_to(ROOT / folder).parts))
        for name, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("__init__.py")
        if "content" not in path.parts
    }
    assert expected <= set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_every_named_package_exists() -> None:
    for package in PYPROJECT["tool"]["setuptools"]["packages"]:
        top, *rest = package.split(".")
        assert (ROOT / FOLDERS[top]).joinpath(*rest).is_dir(), package


def test_what_is_imported_is_declared() -> None:
    extras = PROJECT["optional-dependencies"]
    declared = {normal(one) for one in PROJECT["dependencies"]} | IMPLIED
    declared |= {normal(one) for name in extras if name != "dev" for one in extras[name]}
    owners = packages_distributions()
    missing = set()
    for module in imported_modules():
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top in FOLDERS or top == "google":
            continue
        distributions = {normal(owner) for owner in owners.get(top, [top])}
        if not distributions & declared:
            missing.add(module)
    assert missing == set()


def test_what_is_declared_is_imported() -> None:
    tops = {module.partition(".")[0] for module in imported_modules()}
    owners = packages_distributions()
    used = {normal(owner) for top in tops for owner in owners.get(top, [])}
    grammars = set(re.findall(r"\"(tree_sitter_\w+)\"", text_of("viking_rpc/ingest/code.py")))
    used |= {normal(grammar) for grammar in grammars}
    # Found by name where it is installed (the weights in it are read, its code is not imported).
    used |= {"wordllama"} if '"wordllama"' in text_of("viking_rpc/adapters/wordllama.py") else set()
    assert {normal(one) for one in PROJECT["dependencies"]} - used == set()
    assert grammars
    assert {normal(one) for one in PROJECT["dependencies"]} >= {normal(grammar) for grammar in grammars}


def test_the_service_config_is_package_data() -> None:
    assert "service_config.json" in PYPROJECT["tool"]["setuptools"]["package-data"]["viking_rpc.pb"]
    assert text_of("viking_rpc/pb/service_config.json") == text_of("protos/service_config.json")
