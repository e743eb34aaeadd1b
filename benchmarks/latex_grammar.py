"""Random LaTeX: expressions of a small grammar, and changes of a text token by token."""

import random
import re

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]+|[0-9]+|\s+|<[^<>]*>|.", re.DOTALL)

LEAVES = (
    *(
        "0",
        "1",
        "2",
        "-3",
        "7",
        "12",
        "100",
        "0.5",
        "0.333333",
        "1,234",
        "2 3/4",
        "1e9",
        "x",
        "y",
        "n",
        "a",
        "i",
        "e",
        "k",
    ),
    *(
        r"\pi",
        r"\infty",
        r"\emptyset",
        r"\mathbb{R}",
        r"\theta",
        r"90^\circ",
        "½",
        "π",
        "x²",
        "−5",
        r"50\%",
        r"\$5",
        "3:30",
    ),
    *(
        r"\text{ cm}",
        r"5 \text{ km/h}",
        r"\text{yes}",
        r"\text{(C)}",
        "A",
        "52_8",
        "1011_2",
        r"0.\overline{3}",
        r"\ldots",
    ),
    *("10^{10^{10}}", "999!", "9^{9^9}", r"\binom{99}{44}", "10000000007", "3 hours 5 minutes", "12 apples", "9:15 pm"),
)
FORMS = (
    *(r"\frac{@}{@}", r"\frac@@", "@/@", "@+@", "@-@", r"@\cdot @", r"@\times @", "@@", "@ @", "@^{@}", "@^@", "@_{@}"),
    *(
        r"\sqrt{@}",
        r"\sqrt[@]{@}",
        r"\sqrt@",
        "(@)",
        r"\left(@\right)",
        "|@|",
        r"\lfloor @\rfloor",
        "@!",
        "-@",
        r"\pm @",
    ),
    *(
        r"@\pm @",
        "(@,@)",
        "[@,@)",
        "(@,@]",
        r"\{@,@\}",
        "@,@",
        r"@ \text{ and } @",
        r"@ \text{ or } @",
        "@;@",
        "@=@",
        "@<@",
    ),
    *(r"@\le @<@", r"@\ne @", r"@\cup @", r"@\cap @", r"@\setminus @", r"x\in @", r"\sin @", r"\tan^{-1}(@)", r"\ln @"),
    *(
        r"\log_{@}@",
        "e^{@}",
        r"\binom{@}{@}",
        r"\sum_{k=1}^{@} @",
        r"\prod_{k=1}^{@} @",
        r"\gcd(@,@)",
        r"\max(@,@)",
        "f(@)=@",
    ),
    *(
        r"\begin{pmatrix}@&@\\@&@\end{pmatrix}",
        r"\begin{vmatrix}@&@\\@&@\end{vmatrix}",
        r"@\begin{bmatrix}@\\@\end{bmatrix}",
    ),
    *(
        r"\text{@}",
        r"\mathrm{@}",
        r"\boxed{@}",
        r"@\%",
        r"@^\circ",
        r"@\text{ m}^{@}",
        r"\$@",
        "$@$",
        r"\overline{@}",
        "{@}",
    ),
    *(
        "<think>@</think>@",
        "<answer>@</answer>",
        "#### @",
        "The answer is @.",
        "Answer: @",
        "@:@",
        r"@\!@",
        "@{,}@",
        r"{@ \over @}",
    ),
    *(
        r"\begin{cases}@\\@\end{cases}",
        r"\lim_{n\to @}@",
        r"\int_{@}^{@} @",
        "not @",
        "@ mod @",
        r"@\equiv @",
        "@×10^@",
        "@\n@",
    ),
)
DEBRIS = (
    *(
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "|",
        "\\",
        "$",
        "$$",
        "&",
        r"\\",
        "^",
        "_",
        "<think>",
        "</think>",
        r"\boxed{",
        r"\frac",
    ),
    *(
        r"\left",
        r"\right",
        r"\end{pmatrix}",
        r"\begin{array}{cc}",
        "\u200b",
        "\u00a0",
        "\x00",
        "٣",
        "𝟙",
        "１",
        "，",
        "⁄",
        "⁻¹",
    ),
    *(
        "√",
        "∛",
        "∪",
        "≤",
        "±",
        "ℝ",
        "∅",
        ".",
        ",",
        "'",
        '"',
        "?",
        "!!",
        "~",
        r"\,",
        r"\!",
        r"\quad",
        "<|im_end|>",
        "####",
        "=",
    ),
)


def expression(dice: random.Random, depth: int) -> str:
    """A random expression of the grammar."""
    if depth == 0 or dice.random() < 0.25:
        return dice.choice(LEAVES)
    return re.sub("@", lambda _: expression(dice, depth - 1), dice.choice(FORMS))


def changed(text: str, dice: random.Random) -> str:
    """The text with a span of tokens replaced, repeated, moved, wrapped or thrown away."""
    tokens = TOKEN.findall(text)
    start = dice.randint(0, len(tokens))
    end = min(len(tokens), start + dice.choice((0, 1, 1, 2, 5)))
    before, span, after = tokens[:start], tokens[start:end], tokens[end:]
    middle = {
        "grow": lambda: expression(dice, dice.randint(0, 3)),
        "wrap": lambda: dice.choice(FORMS).replace("@", "".join(span) or "1"),
        "break": lambda: dice.choice(DEBRIS),
        "cut": lambda: "",
        "repeat": lambda: "".join(span) * dice.choice((2, 3, 20, 200)),
        "number": lambda: str(dice.choice((0, 1, 2, 9, 10, 99, 1000, 10**6, 10**18, dice.randint(0, 10**9)))),
        "turn": lambda: "".join(reversed(span)),
    }[dice.choice(("grow", "grow", "wrap", "wrap", "break", "cut", "repeat", "number", "turn"))]()
    return "".join(before) + middle + "".join(after)
