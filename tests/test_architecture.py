"""Arrows between rooms point down only: what two rooms share is a record in the lower one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "groupwise"

# From the lowest to the highest; a room imports those before its own line, and none of its own line.
LEVELS = (
    {"__init__", "closing", "completion", "errors", "lazy", "options", "page", "problem", "stopping"},
    {"findings", "own_code", "ranks"},
    {"launch"},
    {"technique"},
    {"objective", "grading"},
    {"config"},
    {"data"},
    {"model"},
    {"rollout"},
    {"memory"},
    {"explaining", "importing"},
    {"track"},
    {"evaluation", "health", "view"},
    {"report"},
    {"training"},
    {"api", "bundled"},
    {"cli"},
    {"__main__"},
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

# The options of a room stand with their owner, and the configuration is made of them.
OPTIONS = {("config", "groupwise.rollout.engine_options"), ("config", "groupwise.model.adapter_options")}


def room_of(module: str) -> str:
    """`groupwise.model.load` is of the room `model`, the package alone of `__init__`."""
    return [*module.split("."), "__init__"][1]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Modules of groupwise that a file imports when it runs, within functions too; not those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "groupwise":
            yield from (f"groupwise.{name.name}" for name in node.names if (PACKAGE / name.name).exists())
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("groupwise."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("groupwise."))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from imports_of(ast.Module(node.orelse, []))
        else:
            yield from imports_of(node)


@pytest.mark.parametrize("room", sorted(LEVEL))
def test_a_room_imports_lower_rooms_alone(room: str) -> None:
    files = [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").is_file() else sorted((PACKAGE / room).rglob("*.py"))
    assert files
    upwards = [
        (str(file.relative_to(PACKAGE)), module)
        for file in files
        for module in imports_of(ast.parse(file.read_text(encoding="utf-8")))
        if room_of(module) != room and LEVEL[room_of(module)] >= LEVEL[room] and (room, module) not in OPTIONS
    ]
    assert upwards == []


def test_every_room_has_its_level() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert rooms - {"recipes"} == set(LEVEL)


def test_the_walk_sees_imports_and_passes_over_those_for_type_checkers() -> None:
    source = """
import groupwise.training.run
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from groupwise.config import TrainConfig
else:
    from groupwise.model.load import Policy
def late():
    from groupwise import cli
    from groupwise.data.rows import Row
"""
    found = ["groupwise.training.run", "groupwise.model.load", "groupwise.cli", "groupwise.data.rows"]
    assert list(imports_of(ast.parse(source))) == found


def test_every_file_can_be_read_in_one_sitting() -> None:
    lines = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
    }
    assert {path: count for path, count in lines.items() if count > 300} == {}
