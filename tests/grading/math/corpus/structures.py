"""Answers of several parts, and relations."""

from tests.grading.math.corpus.kind import Kind

INTERVAL = Kind(
    same=(
        ("[1,3)", r"\left[1,3\right)"),
        (r"(-\infty,2]\cup[5,\infty)", r"(-\infty, 2] \cup [5, +\infty)"),
        (r"[5,\infty)\cup(-\infty,2]", r"(-\infty,2]\cup[5,\infty)"),
        (r"x\in(0,1]", "(0,1]"),
        (r"\left(\frac12,1\right]", "(0.5,1]"),
        (r"[0,2]\cup[1,3]", "[0,3]"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        (r"\mathbb{R}\setminus\{0\}", r"(-\infty,0)\cup(0,\infty)"),
        (r"[\sqrt4,3]", "[2,3]"),
        (r"\bigl(0, \tfrac{\pi}{2}\bigr)", r"(0,\pi/2)"),
    ),
    same_one_way=(
        ("(2,5)", "2<x<5"),
        (r"[3,\infty)", r"x\ge 3"),
        (r"(-\infty,-1)\cup(2,\infty)", r"x<-1 \text{ or } x>2"),
    ),
    different=(
        ("[1,3)", "[1,3]"),
        ("(1,3)", "[1,3]"),
        ("(1,3)", "(1,4)"),
        (r"(-\infty,2]", r"[2,\infty)"),
        (r"(1,2)\cup(3,4)", "(1,4)"),
        (r"(1,2)\cup(3,4)", "(1,2)"),
        ("(3,1]", "(1,3]"),
        ("[1,3]", r"\{1,3\}"),
        (r"[0,1)\cup(1,2]", "[0,2]"),
        (r"[0,\infty)", "0"),
    ),
    different_one_way=((r"(2,\infty)", r"x\ge 2"), ("[2,5)", "2<x<5")),
)

SET = Kind(
    same=(
        (r"\{1,2,3\}", r"\{3,2,1\}"),
        (r"\{1,2,2\}", r"\{1,2\}"),
        (r"\{0.5,1\}", r"\left\{\frac12,1\right\}"),
        (r"\{1,2\}\cup\{3\}", r"\{1,2,3\}"),
        (r"\emptyset", r"\{\}"),
        (r"\varnothing", r"\emptyset"),
        ("1,2,3", r"\{1,2,3\}"),
        (r"x\in\{1,2\}", r"\{1,2\}"),
        (r"\lbrace 1,2\rbrace", r"\{1,2\}"),
        (r"\{(1,2),(3,4)\}", r"\{(3,4),(1,2)\}"),
        (r"\{a,b\}", r"\{b,a\}"),
        (r"\{2,3\}\cap\{3,4\}", r"\{3\}"),
    ),
    different=(
        (r"\{1,2\}", r"\{1,2,3\}"),
        (r"\{1,2\}", r"\{1,3\}"),
        (r"\{(1,2)\}", r"\{(2,1)\}"),
        (r"\emptyset", r"\{0\}"),
        (r"\emptyset", "0"),
        ("(1,2)", r"\{1,2\}"),
        (r"\{1,2\}", r"\{-1,-2\}"),
        (r"\{\emptyset\}", r"\emptyset"),
        (r"\{12\}", r"\{1,2\}"),
        (r"\{1,2\}\cap\{2,3\}", r"\{1,2,3\}"),
    ),
)

LIST = Kind(
    same=(
        ("1,3", "3,1"),
        (r"1 \text{ and } 3", "1, 3"),
        (r"1 \text{ or } 3", "1,3"),
        ("x=1, x=3", "1,3"),
        (r"\sqrt2, -\sqrt2", r"-\sqrt{2},\sqrt{2}"),
        (r"1,\ 2,\ \text{and } 3", "1,2,3"),
        ("(1,2),(3,4)", "(3,4),(1,2)"),
        (r"1;\ 3", "1,3"),
        ("0.5, 2", r"2, \frac12"),
        (r"x=1\text{ or }x=-4", r"-4,1"),
    ),
    different=(
        ("1", "1,3"),
        ("1,3,5", "1,3"),
        ("1,2", "12"),
        ("(1,2),(3,4)", "(2,1),(3,4)"),
        ("(1,2),(3,4)", "(1,2)"),
        ("1,3", "1,-3"),
        ("1,2,3,4", "(1,2),(3,4)"),
        ("5,7", "57"),
        (r"1 \text{ or } 3", "3"),
        ("x=1, y=3", "1"),
    ),
)

TUPLE = Kind(
    same=(
        ("(1,2)", r"(1.0,\frac{4}{2})"),
        (r"\left(1,2\right)", "(1, 2)"),
        (r"\langle 1,2\rangle", "(1,2)"),
        ("(x,y)=(1,2)", "(1,2)"),
        ("(a,b,c)=(1,2,3)", "(1,2,3)"),
        (r"(\sqrt4,\pi)", r"(2,\pi)"),
        ("( 0 , -1/2 )", "(0,-0.5)"),
        (r"\big(1,2\big)", "(1,2)"),
        ("(1,(2,3))", r"(1,\left(2,3\right))"),
    ),
    same_one_way=(
        ("x=1, y=2", "(1,2)"),
        (r"x=1 \text{ and } y=2", "(1,2)"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1,2)"),
    ),
    different=(
        ("(1,2)", "(2,1)"),
        ("(1,2)", "(1,2,3)"),
        ("(1,2)", "12"),
        ("(1,2)", "(-1,2)"),
        ("(1,2)", "1.2"),
        ("x=2, y=1", "(1,2)"),
        ("((1,2),3)", "(1,2,3)"),
        ("(0,0)", "0"),
        (r"(1,\frac12)", "(1,2)"),
    ),
)

_A = r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"
MATRIX = Kind(
    same=(
        (_A, r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
        (_A, r"\left[\begin{array}{cc}1&2\\3&4\end{array}\right]"),
        (_A, r"\begin{pmatrix}1&2\\3&4\\\end{pmatrix}"),
        (_A, r"\left(\begin{matrix}1&2\\3&4\end{matrix}\right)"),
        (_A, r"\begin{pmatrix}1.0&\frac42\\\sqrt9&2^2\end{pmatrix}"),
        (_A, r"\frac12\begin{pmatrix}2&4\\6&8\end{pmatrix}"),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", "-2"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
        (r"\begin{pmatrix}x+1&0\\0&1\end{pmatrix}", r"\begin{pmatrix}1+x&0\\0&1\end{pmatrix}"),
    ),
    different=(
        (_A, r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
        (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (_A, r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
        (_A, r"\begin{pmatrix}1&2\end{pmatrix}"),
        (_A, r"\begin{pmatrix}1&2\\3&-4\end{pmatrix}"),
        (_A, "-2"),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", "2"),
        (_A, r"2\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (_A, "(1,2,3,4)"),
        (_A, r"\begin{pmatrix}1&2&0\\3&4&0\end{pmatrix}"),
    ),
)

PLUS_MINUS = Kind(
    same=(
        (r"\pm 3", "3,-3"),
        (r"\pm3", r"\{-3,3\}"),
        (r"2\pm\sqrt3", r"2+\sqrt3, 2-\sqrt3"),
        (r"x=\pm2", "-2, 2"),
        (r"\mp 3", r"\pm 3"),
        (r"\pm\sqrt{4}", r"\pm 2"),
        (r"\frac{1\pm\sqrt5}{2}", r"\frac{1+\sqrt5}{2},\frac{1-\sqrt5}{2}"),
        ("±3", r"\pm 3"),
        (r"\pm 1,\pm 2", "-2,-1,1,2"),
        (r"\pm 2i", "2i, -2i"),
    ),
    different=(
        ("3", r"\pm 3"),
        ("-3", r"\pm 3"),
        (r"\pm 3", r"\pm 4"),
        (r"1\pm\sqrt2", r"1+\sqrt2"),
        (r"1\pm 2", r"\pm 3"),
        (r"\pm 1", "1,2"),
        (r"\pm\sqrt2", r"\pm 2"),
        (r"\pm i", r"\pm 1"),
        (r"\pm 1,\pm 2", "1,2"),
    ),
)

EQUATION = Kind(
    same=(
        ("y=2x+1", "2x+1=y"),
        ("y=2x+1", "y-2x=1"),
        ("2y=4x+2", "y=2x+1"),
        ("x=5", "5"),
        ("x^2+y^2=25", "y^2+x^2-25=0"),
        (r"\frac{x}{2}+\frac{y}{3}=1", "3x+2y=6"),
        ("y=2x+1", "2x+1"),
        ("f(x)=x^2", "x^2"),
        ("(x-1)^2+(y+2)^2=9", "x^2+y^2-2x+4y-4=0"),
        (r"y=\frac x2", "x=2y"),
        (r"A = 12\pi", r"12\pi"),
    ),
    different=(
        ("y=2x+1", "y=2x-1"),
        ("y=2x+1", "x=2y+1"),
        ("x=5", "y=5"),
        ("x=5", "x=6"),
        ("x^2+y^2=25", "x^2-y^2=25"),
        ("2x+1", "y=2x+2"),
        ("x=5", "x=-5"),
        ("y=2x", "y=2z"),
        ("x^2=4", "x=2"),
    ),
    different_one_way=(
        ("7=8", "7"),
        ("7=8", "8"),
        ("0=0", "x+y=1"),
        ("x=x", "y=2x+1"),
        ("0=0", "x=5"),
        ("(x-1)(y-2x-1)=0", "y-2x-1=0"),
        ("5=x=6", "6"),
    ),
)

INEQUALITY = Kind(
    same=(
        ("x>3", "3<x"),
        (r"x\ge3", r"x\geq 3"),
        (r"x\geqslant 3", r"3\leqslant x"),
        ("2<x<5", "5>x>2"),
        (r"1\le x\le 4", r"1\leq x\leq4"),
        ("x≤3", r"x\le 3"),
        ("2x>6", "x>3"),
        (r"x<-1 \text{ or } x>2", r"x>2 \text{ or } x<-1"),
        (r"x\le\frac12", r"x\le 0.5"),
        (r"x\neq 2", r"x \ne 2"),
        ("x >= 3", r"x\ge 3"),
    ),
    different=(
        ("x>3", r"x\ge3"),
        ("x>3", "x<3"),
        ("2<x<5", r"2<x\le5"),
        ("2<x<5", "2<x"),
        ("x>3", "y>3"),
        ("x>3", "x>4"),
        (r"x\ne2", "x=2"),
        (r"x<-1 \text{ or } x>2", "-1<x<2"),
        ("x>3", "3"),
    ),
)

KINDS = {
    "interval": INTERVAL,
    "set": SET,
    "list": LIST,
    "tuple": TUPLE,
    "matrix": MATRIX,
    "plus or minus": PLUS_MINUS,
    "equation": EQUATION,
    "inequality": INEQUALITY,
}
