"""The imports that a program forgot, as sites such as LeetCode make them for everyone."""

import ast
import builtins
from collections.abc import Iterator

_NAMES = {
    "typing": "Any Callable DefaultDict Deque Dict FrozenSet Generator Generic Iterable Iterator List Literal Mapping"
    " NamedTuple Optional Sequence Set Tuple Type TypeVar Union",
    "collections": "Counter OrderedDict defaultdict deque namedtuple ChainMap",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest merge",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "itertools": "accumulate chain combinations combinations_with_replacement count cycle groupby islice pairwise"
    " permutations product repeat starmap takewhile zip_longest",
    "functools": "cache cmp_to_key lru_cache partial reduce wraps",
    "math": "ceil comb cos dist exp factorial floor gcd hypot inf isqrt lcm log log10 log2 perm pi prod sin sqrt tan",
    "operator": "itemgetter attrgetter xor mul",
    "copy": "deepcopy",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
    "fractions": "Fraction",
    "decimal": "Decimal",
    "dataclasses": "dataclass field",
    "datetime": "datetime timedelta date",
    "random": "randint shuffle choice",
    "io": "StringIO BytesIO",
    "sys": "stdin stdout setrecursionlimit maxsize",
    "abc": "ABC abstractmethod",
    "enum": "Enum IntEnum auto",
}
_FROM = {name: module for module, names in _NAMES.items() for name in names.split()}
_OTHERS = "os re json time statistics queue array struct threading cmath textwrap"
_MODULES = frozenset((*_NAMES, *_OTHERS.split()))
_BUILTIN = frozenset(dir(builtins))


def forgotten_imports(program: str) -> str:
    """One line of imports for the names that the program reads, binds nowhere, and that everyone knows; else empty.

    A name that the program binds anywhere, or a star import, leaves it as it is. Nothing is run.
    """
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    bound, read, bases = set(_bound(tree)), dict[str, None](), set[str]()
    if "*" in bound:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read[node.id] = None
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            bases.add(node.value.id)
    missing = [name for name in read if name not in bound and name not in _BUILTIN]
    # `bisect.bisect_left` is of the module, `bisect(a, x)` the function of the same name.
    lines = [
        f"import {name}"
        if name in _MODULES and (name in bases or name not in _FROM)
        else f"from {_FROM[name]} import {name}"
        for name in missing
        if name in _MODULES or name in _FROM
    ]
    return "; ".join(lines)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
