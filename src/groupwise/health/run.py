"""What the rules know of a run of groupwise beside its steps."""

import json
from contextlib import suppress
from pathlib import Path

from groupwise.config.compose import compose_train_config
from groupwise.errors import GroupwiseError
from groupwise.health.conditions import USUAL_VOCABULARY, Context
from groupwise.model.size import base_path, model_folder
from groupwise.track.run_folder import RunFolder, where_it_began


def context_of(path: Path, vocabulary: int = 0, eval_problems: int = 500) -> Context:
    """Vocabulary and held-out problems of the run in a folder; what is given for a log of another trainer."""
    found = vocabulary
    if path.is_dir():
        with suppress(GroupwiseError, OSError, ValueError), where_it_began(str(path)) as began:
            folder = RunFolder(Path(began))
            with suppress(GroupwiseError):
                found = found or int(folder.read_context().get("vocabulary") or 0)
            config = compose_train_config([str(folder.config)])
            eval_problems = config.problems.eval_problems or eval_problems
            stated = json.loads((model_folder(base_path(config.model.path)) / "config.json").read_text("utf-8"))
            found = found or int(stated.get("vocab_size") or stated.get("text_config", {}).get("vocab_size", 0))
    return Context(found or USUAL_VOCABULARY, eval_problems)
