"""One source of options over another: sections merge key by key, techniques by name, everything else is replaced."""

from typing import Any

from pydantic import BaseModel

from groupwise.config.schema import as_named_sections, as_section, as_techniques
from groupwise.grading.components.component import RewardComponent
from groupwise.technique import Technique


def merged(owner: type[BaseModel] | None, earlier: Any, later: Any) -> Any:
    """`later` over `earlier`, both the options of a section (`owner`; None for an unknown one).

    A section or technique without a value, the heading above comments alone, changes nothing.
    """
    if not isinstance(later, dict):
        return later
    whole = dict(earlier) if isinstance(earlier, dict) else {}
    for name, value in later.items():
        info = owner.model_fields.get(name) if owner else None
        annotation, before = info.annotation if info else None, whole.get(name)
        section, entry, techniques = as_section(annotation), as_named_sections(annotation), as_techniques(annotation)
        if value is None and (section or entry or techniques):
            continue
        if info and techniques:
            whole[name] = _merged_technique(techniques, info.default.type, before, value)
        elif section or (info is None and isinstance(before, dict)):
            whole[name] = merged(section, before, value)
        elif entry and isinstance(value, dict):
            entries = before if isinstance(before, dict) else {}
            stated = {its: {} if of is None else of for its, of in value.items()}
            whole[name] = {**entries, **{its: merged(entry, entries.get(its), of) for its, of in stated.items()}}
        else:
            # A mapping that is a value, as the shares of sources, is replaced.
            whole[name] = value
    return whole


def _merged_technique(techniques: dict[str, type[Technique]], default: str, earlier: Any, later: Any) -> Any:
    """Options without a name, or with the same one, are for the technique chosen so far; another name starts anew.

    Of reward components the options that both have are kept, such as the weight, also by a name alone: whoever changes
    how the format is recognised still wants it rewarded.
    """
    stated, given = ({"type": value} if isinstance(value, str) else value for value in (earlier, later))
    if not (isinstance(stated, dict) and isinstance(given, dict)):
        return later
    chosen = stated.get("type", default)
    name = given.get("type", chosen)
    technique = techniques.get(name) if isinstance(name, str) else None
    if technique is not None and issubclass(technique, RewardComponent):
        shared = stated if name == chosen else {key: stated[key] for key in stated if key in technique.model_fields}
        return {**shared, **given}
    if name != chosen or not isinstance(later, dict):
        return later
    joined = {**stated, **given}
    own = [part.get("options") for part in (stated, given)]
    if technique is not None and "path" in technique.model_fields and stated.get("path") == joined.get("path"):
        # Options of the user's own code are options like any other.
        joined |= {"options": {**own[0], **own[1]}} if isinstance(own[0], dict) and isinstance(own[1], dict) else {}
    return joined


def differences(base: Any, whole: Any) -> Any:
    """The smallest tree that gives `whole` when it is merged over `base`: of another technique all options."""
    if not (isinstance(base, dict) and isinstance(whole, dict)) or base.get("type") != whole.get("type"):
        return whole
    changed = {key: value for key, value in whole.items() if key not in base or base[key] != value}
    return {key: differences(base[key], value) if key in base else value for key, value in changed.items()}
