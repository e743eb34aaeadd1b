"""From a path to a technique: a class of the user's own as it is, a function as a class made from its signature."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ValidationError, create_model
from pydantic_core import InitErrorDetails, PydanticCustomError

from groupwise.findings import Finding, error, suggest_word
from groupwise.objective.own.declare import Declaration, declaration_of
from groupwise.own_code import LoadError, Origin, OwnCodeError, find, naming, origin_of, path_here
from groupwise.technique import Card, Technique, number, sections_of

if TYPE_CHECKING:
    from groupwise.config import TrainConfig

Scalar = bool | int | float | str
_TAKEN = ("type", "path", "options")


@dataclass(frozen=True)
class Room:
    """What code of the user's own may be here.

    Attributes:
        kind: what a decorator declares. key: the option that chooses it.
        base: of classes. adapter: of functions; its `call` is the function.
        takes: the parameters that a function is given by position, the first of them always.
        returns: raises ValueError for a result that is none, from the result and the arguments of the method.
        methods: those that run the user's code, the first of them with a result that is checked.
        problems: what the checks of a technique find in a configuration, each as a sentence.
    """

    kind: str
    key: str
    base: type[Technique]
    adapter: type[Technique]
    takes: tuple[str, ...]
    methods: tuple[str, ...]
    returns: Callable[..., None]
    problems: Callable[[Any, TrainConfig], list[str]]


def options_of(technique: Technique) -> dict[str, Any]:
    """Its options by name."""
    return {name: getattr(technique, name) for name in type(technique).model_fields if name != "type"}


def technique_at(path: str, room: Room) -> type[Technique]:
    """The technique at a path, the same class as long as its source is the same. Raises LoadError."""
    with contextlib.redirect_stdout(sys.stderr):
        value = find(path)
    return _bound(value, origin_of(path, value), room.key, room)


def stated(value: Any) -> Any:
    """Functions, classes and instances of the user's own as the options that a file would state; others as they are."""
    if isinstance(value, Technique) and not type(value).__module__.startswith("groupwise.") and value.origin is None:
        return {"type": "function", "path": path_here(type(value)), "options": options_of(value)}
    if callable(value) and not isinstance(value, Technique):
        return {"type": "function", "path": path_here(value)}
    return value


def validated(value: Any, handler: Callable[[Any], Any], room: Room) -> Any:
    """The technique that `path` and `options` name, in place of these. For wrap validators; raises ValidationError."""
    if isinstance(value, room.base) and value.origin is not None:
        return value
    given = handler(value)
    try:
        technique = technique_at(given.path, room)
    except LoadError as failure:
        kind = PydanticCustomError("own_code", "{text}", {"text": str(failure)})
        details = [InitErrorDetails(type=kind, loc=("path",), input=given.path)]
        raise ValidationError.from_exception_data(given.path, details) from None
    try:
        return technique.model_validate(given.options)
    except ValidationError as failure:
        details = [
            InitErrorDetails(
                type=PydanticCustomError("own_option", "{text}", _option_context(technique, detail)),
                loc=("options", *detail["loc"]),
                input=detail["input"],
            )
            for detail in failure.errors()
        ]
        raise ValidationError.from_exception_data(given.path, details) from None


def _option_context(technique: type[Technique], detail: Any) -> dict[str, Any]:
    path = technique.origin.path if technique.origin else ""
    return {"text": f"{detail['msg']} in {path}", "path": path, "technique": technique, "detail": detail}


@functools.cache
def _bound(value: Any, origin: Origin, key: str, room: Room) -> type[Technique]:
    base = _of_class(value, origin, room) if isinstance(value, type) else _of_function(value, origin, room)
    taken = [name for name in base.model_fields if name in _TAKEN[1:]]
    if taken:
        raise LoadError(f"{origin.path} has an option {taken[0]}, a name that its place in a configuration has taken")
    # Whatever it is called itself, in a configuration it is a function by its path.
    chosen: dict[str, Any] = {"type": (Literal["function"], "function")}
    technique = _subclass(base, base.__name__, chosen)
    named = [f"{key}.options.{name}" for name in technique.model_fields if name != "type"]
    extra: dict[str, Any] = {
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "origin": origin,
        "path": origin.path,
        "options": property(options_of),
        "cards": base.cards
        if isinstance(value, type) and base.cards
        else (_card(technique, base.__doc__, origin, named, room),),
        "findings": _findings_of(base, room),
        **{name: _guarded(getattr(base, name), origin, room, checked=i == 0) for i, name in enumerate(room.methods)},
    }
    for name, attribute in extra.items():
        setattr(technique, name, attribute)
    return technique


def _of_class(value: type[Any], origin: Origin, room: Room) -> type[Technique]:
    if not issubclass(value, room.base):
        raise LoadError(
            f"{origin.path} is a class that is no {room.base.__name__}; expected a subclass of "
            f"{room.base.__module__}.{room.base.__name__}, or a function"
        )
    missing = sorted(getattr(value, "__abstractmethods__", ()))
    if missing:
        raise LoadError(f"{origin.path} has no {' and no '.join(missing)}, which every {room.base.__name__} defines")
    return value


def _of_function(function: Callable[..., Any], origin: Origin, room: Room) -> type[Technique]:
    declaration = declaration_of(function)
    if declaration.kind not in ("", room.kind):
        raise LoadError(f"{origin.path} is declared as {declaration.kind}; {room.key} takes {room.kind}s")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise LoadError(f"the signature of {origin.path} cannot be read; wrap it in a function of Python") from None
    given = len(room.takes) if [p.name for p in parameters[1 : len(room.takes)]] == list(room.takes[1:]) else 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or any(parameter.kind not in positional for parameter in parameters[:given]):
        raise LoadError(f"{origin.path} takes no positional argument; expected {_signature(room)}")
    fields: dict[str, Any] = {}
    for parameter in parameters[given:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise LoadError(
                f"{origin.path} takes {parameter}; expected {_signature(room)}: every option has a name and a default, "
                "so that a misspelt one can be refused"
            )
        annotation = _annotation(parameter, function, origin)
        fields[parameter.name] = (annotation, ... if parameter.default is parameter.empty else parameter.default)
    name = getattr(function, "__name__", type(function).__name__)
    adapter = _subclass(room.adapter, name, fields)
    text = _text_of(declaration, name, list(fields), origin)
    for claim, value in {**declaration.claims, "call": staticmethod(function), "given": given, "text": text}.items():
        setattr(adapter, claim, value)
    adapter.__doc__, adapter.__module__ = inspect.getdoc(function), getattr(function, "__module__", __name__)
    return adapter


def _subclass(base: type[Technique], name: str, fields: dict[str, Any]) -> type[Technique]:
    return create_model(name, __base__=base, **fields)


def _signature(room: Room) -> str:
    return f"def NAME({room.takes[0]}, *, OPTION=DEFAULT, ...)"


def _text_of(declaration: Declaration, name: str, options: list[str], origin: Origin) -> Callable[[Any], str]:
    """The formula with the numbers put in; without one the call. Raises LoadError for a name that is no option."""
    formula = declaration.formula or f"{name}({', '.join(f'{option}={{{option}}}' for option in options)})"
    try:
        formula.format_map(dict.fromkeys(options, ""))
    except (KeyError, ValueError, IndexError, AttributeError) as failure:
        unknown = str(failure.args[0])
        raise LoadError(
            f"the formula of {origin.path} has {{{unknown}}}, which is no option of it{suggest_word(unknown, options)}"
            f"; its options are {', '.join(options) or 'none'}"
        ) from None
    return lambda technique: formula.format_map({name: _shown(getattr(technique, name)) for name in options})


def _shown(value: Scalar) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _annotation(parameter: inspect.Parameter, function: Callable[..., Any], origin: Origin) -> Any:
    """The type of an option: as annotated, else that of its default; an integer may be any number then."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        annotation = int | float if type(parameter.default) is int else type(parameter.default)
    elif isinstance(annotation, str):
        try:
            annotation = eval(annotation, getattr(function, "__globals__", {}))
        except Exception as failure:
            text = f"the type {annotation!r} of {parameter.name} in {origin.path} cannot be read: {failure}"
            raise LoadError(text) from None
    if not _is_scalar(annotation):
        raise LoadError(
            f"{parameter.name} of {origin.path} is {inspect.formatannotation(annotation)}; an option is a number, text "
            "or true/false: give it such a type, or such a default"
        )
    return annotation


def _is_scalar(annotation: Any) -> bool:
    if typing.get_origin(annotation) is Annotated:
        return _is_scalar(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is Literal:
        return all(type(value) in (bool, int, float, str) for value in typing.get_args(annotation))
    return annotation in (bool, int, float, str, int | float)


def _card(technique: type[Technique], doc: str | None, origin: Origin, options: list[str], room: Room) -> Card:
    *above, last = room.key.split(".")
    return Card(
        name=origin.name,
        source=origin.path + (f", sha256 {origin.sha256[:12]}" if origin.sha256 else ""),
        what=(doc or "").strip().partition("\n")[0].rstrip(".") or f"a {room.kind} of your own",
        equation="",
        keys=(room.key, f"{room.key}.path", *options),
        is_on=lambda c: isinstance(getattr(functools.reduce(getattr, above, c), last), technique),
        test="",
    )


def _guarded(method: Callable[..., Any], origin: Origin, room: Room, checked: bool) -> Callable[..., Any]:
    """The method with errors under the name of the user's code; what it prints leaves the standard output alone."""

    @functools.wraps(method)
    def called(self: Technique, *arguments: Any, **named: Any) -> Any:
        with contextlib.redirect_stdout(sys.stderr), naming(origin, room.kind):
            result = method(self, *arguments, **named)
        if checked:
            try:
                room.returns(result, *arguments)
            except ValueError as failure:
                raise OwnCodeError(f"{room.kind} {origin.path}", f"returned {failure}") from None
        return result

    return called


def _findings_of(base: type[Technique], room: Room) -> Callable[[Technique, TrainConfig], Iterator[Finding]]:
    def findings(self: Technique, config: TrainConfig) -> Iterator[Finding]:
        """What its class says, and what the checks find that hold for every technique here."""
        yield from base.findings(self, config)
        for text in room.problems(self, config):
            yield error((room.key,), f"{room.kind} {self.origin.path if self.origin else ''}: {text}")

    return findings


def own_sources(config: TrainConfig) -> dict[str, str]:
    """The SHA-256 of the source of everything in a configuration that is of the user's own, by its path."""
    origins = [section.origin for section in sections_of(config) if isinstance(section, Technique) and section.origin]
    return {origin.path: origin.sha256 for origin in origins}
