"""Units of measurement: names, dimensions and factors of conversion."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Dimensions = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as a multiple of the base units of its dimensions; shift is the zero of a temperature scale.

    A word that no table knows is a new dimension, named with a leading `?`.
    """

    factor: Fraction
    dimensions: Dimensions
    shift: Fraction = Fraction(0)


_F = Fraction
_BASE: dict[str, tuple[str, Fraction]] = {}


def _add(dimension: str, table: dict[str, Fraction | int | str]) -> None:
    for names, factor in table.items():
        for name in names.split():
            _BASE[name] = (dimension, Fraction(factor))


_add("length", {
    "m meter metre meters metres": 1, "km kilometer kilometre kilometers kilometres kms": 1000,
    "cm centimeter centimetre centimeters centimetres cms": "0.01", "dm decimeter decimeters": "0.1",
    "mm millimeter millimetre millimeters millimetres": "0.001", "nm nanometer nanometers": "1e-9",
    "micrometer micrometers micron microns": "1e-6",
    "in inch inches": "0.0254", "ft foot feet": "0.3048", "yd yard yards yds": "0.9144", "mi mile miles": "1609.344",
})  # fmt: skip
_add("mass", {
    "kg kilogram kilograms kgs": 1, "g gram grams": "0.001", "mg milligram milligrams": "1e-6",
    "tonne tonnes": 1000, "lb lbs pound pounds": "0.45359237", "oz ounce ounces": "0.028349523125",
    "ton tons": "907.18474",
})  # fmt: skip
_add("time", {
    "s sec secs second seconds": 1, "min mins minute minutes": 60, "h hr hrs hour hours": 3600, "day days": 86400,
    "week weeks": 604800, "ms millisecond milliseconds": "0.001", "fortnight": 1209600,
})  # fmt: skip
_add("calendar", {"month months": 1, "year years yr yrs": 12, "decade decades": 120, "century centuries": 1200})
_add("volume", {
    "l liter litre liters litres": 1, "ml milliliter millilitre milliliters millilitres": "0.001", "cc": "0.001",
    "gallon gallons gal": "3.785411784", "quart quarts qt": "0.946352946", "pint pints pt": "0.473176473",
    "cup cups": "0.2365882365", "tablespoon tablespoons tbsp": "0.01478676478125",
    "teaspoon teaspoons tsp": "0.00492892159375",
})  # fmt: skip
_add("money", {"dollar dollars usd bucks": 1, "cent cents": "0.01"})
for _currency in ("euro euros eur", "yuan rmb cny", "rupee rupees inr", "yen jpy", "sterling gbp"):
    _add(_currency.split()[0], {_currency: 1})
for _name, _share in (("jiao", "0.1"), ("fen", "0.01")):
    _add("yuan", {_name: _share})
_add("mass", {"jin": "0.5"})
_add("angle", {"degree degrees deg": 1, "arcminute arcminutes": _F(1, 60), "arcsecond arcseconds": _F(1, 3600)})
_add("radian", {"radian radians rad rads": 1})
_add("energy", {"joule joules j": 1, "kj": 1000, "cal": "4.184", "kcal": 4184, "ev": "1.602176634e-19"})
_add("force", {"n newton newtons": 1, "kn": 1000})
_add("power", {"w watt watts": 1, "kw": 1000})
_add("pressure", {"pa pascal pascals": 1, "kpa": 1000, "atm": 101325})
_add("voltage", {"v volt volts": 1, "mv": "0.001"})
_add("frequency", {"hz hertz": 1, "khz": 1000, "mhz": 1000000})
_add("amount", {"mol mole moles": 1})
_add("temperature", {"k kelvin kelvins": 1})

_SPEED, _AREA = (("length", 1), ("time", -1)), (("length", 2),)
_WHOLE = {
    "celsius": Unit(_F(1), (("temperature", 1),), _F("273.15")),
    "fahrenheit": Unit(_F(5, 9), (("temperature", 1),), _F("459.67") * _F(5, 9)),
    "mph": Unit(_F("1609.344") / 3600, _SPEED),
    "mpg": Unit(_F("1609.344") / (_F("3.785411784") / 1000), (("length", -2),)),
}
_WHOLE |= dict.fromkeys(("kph", "kmh"), Unit(_F(1000, 3600), _SPEED))
_WHOLE |= dict.fromkeys(("acre", "acres"), Unit(_F("4046.8564224"), _AREA))
_WHOLE |= dict.fromkeys(("hectare", "hectares", "ha"), Unit(_F(10000), _AREA))
DOLLAR, DEGREE = Unit(_F(1), (("money", 1),)), Unit(_F(1), (("angle", 1),))
CELSIUS, FAHRENHEIT = _WHOLE["celsius"], _WHOLE["fahrenheit"]
_GENERIC = frozenset({"unit", "units"})
_POWERS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_FILLERS = frozenset(("*", "\\cdot", "{", "}", "(", ")", "of", "a", "an", "the", "each", "'", "total"))
SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    "lakh": 10**5, "crore": 10**7, "wan": 10**4, "yi": 10**8,
}  # fmt: skip
# A value in front of such a word is not just named: 5 or so, 5 halves.
_CHANGES = """or and not no than least most to maybe if but is are never unless until halves half thirds third fourths
fourth fifths sixths sevenths eighths ninths tenths hundredths thousandths factorial minus plus times over point more
less wrong incorrect false negative doubled tripled halved twice thrice double triple ish odd something between versus
unsure guess guessed probably possibly uncertain approx
zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundreds thousands
millions billions dozens instead rather except excluding unknown undefined infinity"""
_NO_UNITS = frozenset(_CHANGES.split()) | frozenset(SCALES)
_PART = re.compile(r"[A-Za-z]+|\^|-?\d+|/|\*|[{}()]|\\cdot|'")


def is_known_word(word: str) -> bool:
    """Whether a word by itself names a unit."""
    word = word.lower()
    return word in _BASE or word in _WHOLE or word in _GENERIC or word in {"pct", "percent"}


@lru_cache(maxsize=2048)
def unit_of(phrase: str) -> Unit | None:
    """The unit that a phrase such as `square inches`, `cm^2`, `km/h`, `miles per hour` names; None for no unit."""
    if len(phrase) > 120:
        return None
    parts = _PART.findall(phrase.lower().replace(".", " "))
    if len(parts) == 1 and parts[0] in _WHOLE:
        return _WHOLE[parts[0]]
    if not _NO_UNITS.isdisjoint(parts):
        return None
    found: list[tuple[str, Fraction, int]] = []
    sign, power, raised = 1, 1, False
    for part in parts:
        if part.lstrip("-").isdigit():
            if not raised or not found or not 1 <= abs(int(part[:4])) <= 4:
                return None
            name, value, exponent = found[-1]
            found[-1] = (name, value, exponent * int(part))
            raised = False
        elif part in ("/", "per"):
            sign = -1
        elif part == "^":
            raised = True
        elif part in ("squared", "cubed") and found:
            name, value, exponent = found[-1]
            found[-1] = (name, value, exponent * _POWERS[part])
        elif part in _POWERS:
            power = _POWERS[part]
        elif part in _FILLERS or (part == "in" and found):
            continue
        else:
            name, value = _lookup(part)
            found.append((name, value, sign * power))
            power = 1
    factor, dimensions = Fraction(1), dict[str, int]()
    for name, value, exponent in found:
        factor *= value**exponent
        dimensions[name] = dimensions.get(name, 0) + exponent
    return _canonical(factor, dimensions)


def _lookup(word: str) -> tuple[str, Fraction]:
    if word in _BASE:
        return _BASE[word]
    if word in _GENERIC:
        return "unit", Fraction(1)
    if word in _WHOLE:
        unit = _WHOLE[word]
        return ("area" if unit.dimensions == _AREA else word), unit.factor
    for ending, stem in (("ies", "y"), ("ves", "f"), ("es", "e"), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return "?" + word[: -len(ending)] + stem, Fraction(1)
    return "?" + word, Fraction(1)


def _canonical(factor: Fraction, dimensions: dict[str, int]) -> Unit | None:
    """Volumes and areas in lengths, generic `units` without a dimension."""
    for name, power, scale in (("volume", 3, Fraction(1, 1000)), ("area", 2, Fraction(1))):
        if name in dimensions:
            count = dimensions.pop(name)
            factor *= scale**count
            dimensions["length"] = dimensions.get("length", 0) + power * count
    known = tuple(sorted((name, count) for name, count in dimensions.items() if count))
    return Unit(factor, known) if known else None
