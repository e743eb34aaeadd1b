"""A change of one place that makes the program wrong."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "groupwise"


@dataclass(frozen=True)
class Fault:
    """In `file` of src/groupwise, `old` becomes `new`.

    what: in words. where: the test files that are run first; the rooms of the whole chain follow.
    """

    what: str
    file: str
    old: str
    new: str
    where: tuple[str, ...]

    def places(self) -> int:
        """How often the old text stands in the file; 1, or the fault has to be written anew."""
        path = SOURCES / self.file
        return path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0

    def put_into(self, root: Path) -> None:
        """Change the file below another copy of the repository."""
        path = root / "src" / "groupwise" / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")
