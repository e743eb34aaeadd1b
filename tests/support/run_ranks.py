"""Runs of several recipes in the processes that torchrun starts: `run_ranks.py FOLDER NAME=ARGUMENT,ARGUMENT …`.

Each run of the command line is in FOLDER/NAME. Started without torchrun it is the same in one process.
"""

import sys
from pathlib import Path

from groupwise.launch import join
from groupwise.track.tracker import Tracker
from groupwise.training.run import compose_and_start


def main(folder: Path, *runs: str) -> None:
    join()
    for given in runs:
        name, _, arguments = given.partition("=")
        compose_and_start([*arguments.split(","), f"run.output={folder / name}"], False, Tracker())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
