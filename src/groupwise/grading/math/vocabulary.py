"""Names that the lexer and the parser know."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names(
    """sin cos tan cot sec csc arcsin arccos arctan arccot asin acos atan sinh cosh tanh ln log lg exp sqrt abs max min
    gcd lcm cis mod det floor ceil"""
)
GREEK = _names(
    """pi alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell"""
)
INFINITY = _names("infty infinity inf oo Infinity")
TRIGONOMETRIC = _names("sin cos tan cot sec csc sinh cosh tanh")
OF_SEVERAL = _names("max min gcd lcm")
ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log10"}

NOT_FACTORS = _names(
    """choose over mid in notin cup cap setminus pm mp end rangle rfloor rceil pmod bmod mod infty and or forall exists
    to int Rightarrow implies propto"""
)
FUNCTION_LETTERS = _names("f g h F G H P Q R T S p q r")
UNIT_LETTERS = _names("m g s h L l N J W V K")

COMMANDS = {
    "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=", "ne": "!=", "neq": "!=",
    "lt": "<", "gt": ">", "approx": "~", "simeq": "~", "cong": "~", "equiv": "=", "cdot": "*", "times": "*", "ast": "*",
    "div": "/", "colon": ":", "lbrace": "\\{", "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "vert": "|",
    "lvert": "|", "rvert": "|", "dots": "...", "ldots": "...", "cdots": "...", "dotsc": "...",
    "backslash": "setminus", "smallsetminus": "setminus", "varnothing": "emptyset", "dfrac": "frac", "tfrac": "frac",
    "varphi": "phi", "varepsilon": "epsilon", "vartheta": "theta",
    "cfrac": "frac", "dbinom": "binom", "tbinom": "binom", "land": "and", "wedge": "and", "lor": "or", "vee": "or",
}  # fmt: skip
