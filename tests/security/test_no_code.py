"""Nothing of others is run: no pickle is loaded, no code of a model folder, no text of a model."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.faults.fault import SOURCES

UNPICKLING = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "jsonpickle"}
# Code that the user named, and what runs inside of the sandbox.
RUNS_CODE = {
    "own_code.py": "the user's own reward functions and techniques, by the path that the user gives",
    "objective/own/bind.py": "annotations of the same code",
    "grading/sandbox/inside/program.py": "a model's program, inside of the sandbox",
    "grading/sandbox/inside/calls.py": "a model's program, inside of the sandbox",
    "grading/functions/portable.py": "the user's own reward function, compiled and not run",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield str(path.relative_to(SOURCES)), ast.parse(path.read_text(encoding="utf-8"))


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                yield name, called(node), node


def test_no_module_that_unpickles_is_imported() -> None:
    imported = set()
    for name, tree in sources():
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported |= {(name, module) for module in modules}
    assert ("training/checkpoint.py", "safetensors.torch") in imported
    assert not {(name, module) for name, module in imported if module.split(".")[0] in UNPICKLING}


def test_nothing_is_loaded_that_may_be_pickled() -> None:
    found = [(name, function) for name, function, _ in calls()]
    assert ("training/checkpoint.py", "load_file") in found
    loaders = {"torch.load", "np.load", "numpy.load", "pandas.read_pickle", "yaml.load", "yaml.unsafe_load"}
    assert not [pair for pair in found if pair[1] in loaders]
    # transformers takes pickled weights unless it is told not to; a .gguf file holds none.
    for name, function, node in calls():
        if function == "AutoModelForCausalLM.from_pretrained":
            stated = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            assert stated.get("use_safetensors") == "True" or "gguf_file" in stated, name


def test_code_of_a_model_folder_is_never_trusted() -> None:
    trusting = [
        ast.unparse(keyword.value)
        for _, _, node in calls()
        for keyword in node.keywords
        if keyword.arg == "trust_remote_code"
    ]
    assert len(trusting) >= 4
    assert set(trusting) == {"False"}


def test_text_is_run_in_named_places_alone() -> None:
    running = {name for name, function, _ in calls() if function in ("eval", "exec", "compile", "__import__")}
    assert running == RUNS_CODE.keys()


def test_the_scan_sees_what_it_looks_for(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\ntorch.load('x')\neval('1')")
    [first, second] = [
        node for node in ast.walk(ast.parse((tmp_path / "a.py").read_text())) if isinstance(node, ast.Call)
    ]
    assert [called(first), called(second)] == ["torch.load", "eval"]
