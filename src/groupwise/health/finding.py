"""What a rule found in the steps of a run."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """One rule that fired. `critical`: further steps are wasted or harmful.

    first_step: at which it fired; last_step: the newest that was looked at. evidence: the numbers. meaning: what they
    say. change: options of a configuration to try, as `key=value`.
    """

    rule: str
    severity: Severity
    first_step: int
    last_step: int
    evidence: str
    meaning: str
    change: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `groupwise diagnose --json` prints it."""
        return asdict(self)

    @property
    def head(self) -> str:
        """What and since when, for a line of the screen."""
        return f"{self.severity} {self.rule} from step {self.first_step}"

    @property
    def text(self) -> str:
        """In one line, without the rule's name."""
        tried = f" Try {', '.join(self.change)}." if self.change else ""
        return f"{self.evidence}: {self.meaning}{tried}"
