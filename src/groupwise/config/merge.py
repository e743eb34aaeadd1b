"""One source of options over another: sections merge key by key, techniques by name, everything else is replaced."""

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from groupwise.config.schema import as_named_sections, as_section, as_techniques

Tree = dict[str, Any]


def merged(owner: type[BaseModel] | None, earlier: Any, later: Any) -> Any:
    """`later` over `earlier`, both the options of a section (`owner`; None for an unknown one)."""
    if not (isinstance(earlier, dict) and isinstance(later, dict)):
        return later
    whole = dict(earlier)
    for name, value in later.items():
        info = owner.model_fields.get(name) if owner else None
        whole[name] = _merged_value(info, earlier[name], value) if name in earlier else value
    return whole


def _merged_value(info: FieldInfo | None, earlier: Any, later: Any) -> Any:
    annotation = info.annotation if info else None
    section, entry = as_section(annotation), as_named_sections(annotation)
    if info and as_techniques(annotation):
        return _merged_technique(info.default.type, earlier, later)
    if info is None or section:
        return merged(section, earlier, later)
    if entry and isinstance(earlier, dict) and isinstance(later, dict):
        return {**earlier, **{name: merged(entry, earlier.get(name), value) for name, value in later.items()}}
    # A mapping that is a value, as the shares of sources, is replaced.
    return later


def _merged_technique(default: str, earlier: Any, later: Any) -> Any:
    """Options without a name, or with the same one, are for the technique chosen so far; another name starts anew."""
    stated = {"type": earlier} if isinstance(earlier, str) else earlier
    if not (isinstance(stated, dict) and isinstance(later, dict)):
        return later
    chosen = stated.get("type", default)
    return {**stated, **later} if later.get("type", chosen) == chosen else later


def differences(base: Any, whole: Any) -> Any:
    """The smallest tree that gives `whole` when it is merged over `base`: of another technique all options."""
    if not (isinstance(base, dict) and isinstance(whole, dict)) or base.get("type") != whole.get("type"):
        return whole
    changed = {key: value for key, value in whole.items() if key not in base or base[key] != value}
    return {key: differences(base[key], value) if key in base else value for key, value in changed.items()}


def without_empty(owner: type[BaseModel], tree: Tree) -> Tree:
    """The tree without sections and techniques that have no value: a heading above comments alone changes nothing."""
    kept = {}
    for name, value in tree.items():
        info = owner.model_fields.get(name)
        annotation = info.annotation if info else None
        section, entry = as_section(annotation), as_named_sections(annotation)
        if value is None and (section or entry or as_techniques(annotation)):
            continue
        if section and isinstance(value, dict):
            value = without_empty(section, value)
        elif entry and isinstance(value, dict):
            value = {its: _entry_without_empty(entry, of) for its, of in value.items()}
        kept[name] = value
    return kept


def _entry_without_empty(entry: type[BaseModel], value: Any) -> Any:
    if value is None:
        return {}
    return without_empty(entry, value) if isinstance(value, dict) else value
