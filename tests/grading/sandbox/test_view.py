"""What a program sees of this machine."""

import ast
import os
import sys
from pathlib import Path

import pytest

from groupwise.grading.sandbox.runs import Limits
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.sandbox.view import inside, minimal_view

ROOMY = Limits(wall_seconds=60, cpu_seconds=15)


def test_the_view_is_the_interpreter_and_the_system(tmp_path: Path) -> None:
    view = minimal_view()
    assert os.path.realpath(sys.base_prefix) in view.folders or inside(sys.base_prefix, "/usr")
    assert any(inside(view.python, folder) for folder in view.folders) or view.python in view.files
    assert not any(inside(str(Path(__file__)), folder) for folder in view.folders)
    assert str(tmp_path) in minimal_view([tmp_path]).folders


def test_paths_are_inside_only_by_whole_names() -> None:
    assert inside("/usr/lib", "/usr")
    assert inside("/usr", "/usr")
    assert inside("/a", "/")
    assert not inside("/usrx", "/usr")


def test_a_program_sees_nothing_else(sandbox: Sandbox) -> None:
    if sandbox.name == "sandlock":
        pytest.skip("sandlock keeps the system's own tree, and denies what a program may not see")
    program = """
import os, sys
def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
packages = [path for path in sys.path if path.endswith('-packages')]
roots = names('/')
held = [names(os.path.dirname(os.__file__) + '/site-packages'), names('/usr/lib/python3/dist-packages'), names('/home')]
processes = [name for name in names('/proc') if name.isdigit()]
print([packages, roots, held, names('/etc'), dict(os.environ), os.getuid(), processes])
"""
    packages, roots, held, settings, environment, user, processes = ast.literal_eval(
        sandbox.run_program(program, "", ROOMY).stdout.decode()
    )
    assert packages == []
    prefix = sys.base_prefix.split("/")[1]
    assert set(roots) <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", prefix}
    assert held == [[], [], []]
    assert set(settings) <= {"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"}
    assert set(environment) <= {
        "PATH", "LANG", "PYTHONHASHSEED", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HOME", "TMPDIR", "PWD",
    }  # fmt: skip
    assert user == 1000
    assert len(processes) <= 3


def test_only_temporary_folders_can_be_written_to(sandbox: Sandbox) -> None:
    program = """
import os
written = []
for folder, _, _ in os.walk('/'):
    if folder.startswith(('/proc', '/sys')):
        continue
    try:
        path = folder + '/trial'
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        os.remove(path)
        written.append(folder)
    except OSError:
        pass
print(sorted(written))
"""
    outcome = sandbox.run_program(program, "", Limits(wall_seconds=120, cpu_seconds=60))
    assert set(ast.literal_eval(outcome.stdout.decode())) <= {"/tmp", "/dev/shm"}
