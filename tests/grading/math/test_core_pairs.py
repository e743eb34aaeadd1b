"""Pairs of an answer and a reference answer, each with the verdict that mathematics or the default policy asks for."""

import pytest

from groupwise.grading.math.math_grader import same_answer

PAIRS = r"""
same @ 12 \text{ cm} @ 0.12 \text{ m}
same @ 0.12 \text{ m} @ 12\text{ cm}
same @ 120 mm @ 12 cm
different @ 12 cm @ 12 m
different @ 12 m @ 12 cm
same @ 12 m @ 12\text{ m}
same @ 12\,\text{m} @ 12 m
different @ 12 \text{ cm}^2 @ 12\text{ cm}
same @ 2 hours @ 120 minutes
same @ 90 minutes @ 1.5 \text{ hours}
same @ 1 hour 30 minutes @ 90 \text{ minutes}
same @ 5 feet 3 inches @ 63 \text{ inches}
same @ 60 \text{ km/h} @ 60 \text{ kilometers per hour}
same @ 36\text{ km/h} @ 10 \text{ m/s}
same @ 36\ \frac{\text{km}}{\text{h}} @ 36 \text{ km/h}
same @ 100^\circ\text{C} @ 212^\circ\text{F}
same @ 100^\circ\mathrm{C} @ 100
same @ 25^{\circ}C @ 25
same @ 50 \text{ cents} @ \$0.50
same @ \$0.50 @ 50 \text{ cents}
same @ 50 dollars @ \$50
same @ 5 apples @ 5
different @ 5 apples @ 6
same @ 5 @ 5 \text{ apples}
different @ 5 \text{ apples} @ 5 \text{ pears}
same @ \frac{\pi}{3}\text{ radians} @ 60^\circ
same @ 2 2/3 @ 8/3
same @ 2\ \frac{2}{3} @ 8/3
same @ 2\tfrac{2}{3} @ \frac{8}{3}
different @ 2\frac{2}{3} @ 2
same @ -1\frac12 @ -1.5
different @ -1\frac12 @ -0.5
same @ 28% @ 0.28
same @ 28 percent @ 28\%
same @ 28\text{ percent} @ 28
same @ 28 \% @ \frac{7}{25}
different @ 2800\% @ 28\%
different @ 0.28\% @ 28\%
different @ 28\% @ 0.0028
same @ 33.3333\% @ \frac13
different @ 33\% @ \frac13
same @ 33\frac13\% @ \frac13
same @ 1.2e3 @ 1200
same @ 1.2E-3 @ 0.0012
same @ 1.2\times10^{-3} @ 0.0012
same @ 6.02 \cdot 10^{23} @ 6.02 \times 10^{23}
same @ 1.2*10^3 @ 1200
different @ 1.2 \times 10^{4} @ 1200
same @ 10^6 @ 1,000,000
same @ 1\ 000\ 000 @ 1000000
same @ 1 000 000 @ 1000000
same @ 1{,}000{,}000 @ 10^6
same @ 1,000.50 @ 1000.5
different @ 1,000 @ (1,0)
different @ 1, 234 @ 1234
same @ 12. @ 12
same @  5  @ 5
same @ $5$ @ 5
same @ \(5\) @ 5
same @ +5 @ 5
same @ 5\text{.} @ 5
same @ \left(3,4\right] @ (3,4]
different @ (3,4) @ (3,4]
different @ [3,4) @ (3,4]
same @ [-2,7] @ -2 \leq x \leq 7
different @ (-2,7) @ -2 \leq x \leq 7
same @ x<1 \text{ or } x>3 @ x > 3 \text{ or } x < 1
same @ (-\infty,1)\cup(3,\infty) @ x<1 \text{ or } x>3
same @ x>1 \text{ and } x<3 @ 1<x<3
same @ x\neq 2 @ x \ne 2
same @ (-\infty,2)\cup(2,\infty) @ x \ne 2
same @ 7\ge x\ge -2 @ -2 \leq x \leq 7
different @ y>2 @ x>2
same @ \mathbb{R} @ (-\infty,\infty)
same @ (-\infty, \infty) @ \mathbb{R}
same @ \{\} @ \emptyset
same @ \{3,1,2\} @ \{1,2,3\}
same @ 1,2,3 @ \{1,2,3\}
different @ (1,2,3) @ \{1,2,3\}
different @ 1,2 @ \{1,2,3\}
different @ \{1,2,3,4\} @ \{1,2,3\}
same @ 3, 5, 7 @ 3, 5, 7
same @ 7, 5, 3 @ 3, 5, 7
same @ 3, 5, \text{ and } 7 @ 3, 5, 7
same @ 3,5,7 @ 3, 5, 7
same @ 3\text{ and }5 @ 5, 3
same @ 1, -2 @ 1,-2
same @ -2 \text{ or } 1 @ 1,-2
same @ x = 1 \text{ or } x = -2 @ 1,-2
same @ x=1, x=-2 @ 1,-2
same @ x_1=1, x_2=-2 @ 1,-2
same @ x=-2,1 @ 1,-2
different @ 5 or 6 @ 5
different @ 5, 6 @ 5
different @ 5 \text{ or } 6 @ 5
different @ 5/6 @ 5
different @ (5,6) @ 5
same @ \begin{pmatrix}1\\2\end{pmatrix} @ (1,2)
same @ (1,2) @ \begin{pmatrix}1\\2\end{pmatrix}
same @ \begin{bmatrix}1\\2\end{bmatrix} @ \begin{pmatrix}1\\2\end{pmatrix}
different @ \begin{pmatrix}2\\1\end{pmatrix} @ \begin{pmatrix}1\\2\end{pmatrix}
same @ \langle 1,2 \rangle @ (1,2)
same @ \begin{bmatrix} 1/5 \\ -18/5 \end{bmatrix} @ \begin{pmatrix} 0.2 \\ -3.6 \end{pmatrix}
same @ \begin{array}{cc}1&2\\3&4\end{array} @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
different @ \begin{pmatrix}1&2\\4&3\end{pmatrix} @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
same @ [[1,2],[3,4]] @ \begin{pmatrix}1&2\\3&4\end{pmatrix}
same @ \frac1{\sqrt n} @ \sqrt{1/n}
same @ \frac{1}{\sqrt{n}} @ \frac{\sqrt n}{n}
same @ \frac{\sqrt3}{3} @ \frac{1}{\sqrt{3}}
same @ \frac{\sqrt{6}+\sqrt{2}}{4} @ (\sqrt{6}+\sqrt{2})/4
same @ \cos 15^\circ @ (\sqrt{6}+\sqrt{2})/4
same @ \sin(75^\circ) @ (\sqrt{6}+\sqrt{2})/4
same @ \sqrt{2+\sqrt3}/2 @ (\sqrt{6}+\sqrt{2})/4
different @ \sqrt{2-\sqrt3}/2 @ (\sqrt{6}+\sqrt{2})/4
same @ \sqrt[3]{8} @ 2
same @ \sqrt[3]{-8} @ -2
same @ 8^{1/3} @ 2
same @ 4^{-1/2} @ \frac12
same @ \sqrt{12} @ 2\sqrt3
same @ sqrt(12) @ 2\sqrt3
same @ 2*sqrt(3) @ 2\sqrt3
same @ 3.14159265358979 @ \pi
different @ 3.14 @ \pi
different @ 22/7 @ \pi
different @ 1.414 @ \sqrt2
same @ 1.41421356 @ \sqrt2
same @ e^{i\pi}+1 @ 0
same @ i^2 @ -1
same @ (1+i)^2 @ 2i
same @ 6-5i @ 6 - 5i
different @ 6+5i @ 6 - 5i
same @ \ln e^2 @ 2
same @ \log_{10} 1000 @ 3
same @ \log_2 3 @ \frac{\ln 3}{\ln 2}
same @ \log_2(8) @ 3
same @ \tan 45^\circ @ 1
same @ \sin\frac{\pi}{6} @ \frac12
same @ \sin^2 x+\cos^2 x @ 1
same @ \frac{\cos x}{\sin x} @ \cot x
same @ \cot(x) @ \cot x
same @ 1/\tan x @ \cot x
same @ 2\sin x\cos x @ \sin 2x
same @ \sin(2x) @ 2 \sin x \cos x
different @ \sin x @ \cos x
same @ 5r^{5} @ 5r^5
different @ 5r^4 @ 5r^5
same @ y=2x+3 @ y = 2x + 3
same @ 2x+3 @ y = 2x + 3
same @ 2x - y + 3 = 0 @ y = 2x + 3
same @ y - 3 = 2x @ y = 2x + 3
different @ y=2x-3 @ y = 2x + 3
different @ x=2y+3 @ y = 2x + 3
same @ f(x)=2x+3 @ 2x+3
same @ \frac{x^2}{9}+\frac{y^2}{4}=1 @ 4x^2+9y^2=36
same @ x = 5 @ 5
same @ 5 @ x=5
same @ x=5 @ x=5
different @ x=6 @ x=5
same @ m+n = 41 @ 41
same @ P(A) = \frac12 @ 0.5
same @ \text{Area} = 12 @ 12
same @ AB = 12 @ 12
same @ \angle ABC = 30^\circ @ 30
same @ 2+3=5 @ 5
different @ 2+3=6 @ 6
different @ 7=8 @ 8
different @ 2x=10 @ 10
different @ 8=7=8 @ 8
same @ 52_8 @ 52_{8}
same @ 52_{\text{8}} @ 52_8
same @ (52)_8 @ 52_8
same @ 52_{\text{eight}} @ 52_8
different @ 53_8 @ 52_8
different @ 42 @ 52_8
same @ 2A_{16} @ 2A_{16}
same @ 3:45 \text{ pm} @ 3:45
same @ 3:45 p.m. @ 3:45 \text{ PM}
different @ 3:45 am @ 3:45 \text{ pm}
same @ 15:45 @ 3:45 pm
same @ 6:4 @ 3:2
different @ 3:2:1 @ 3:2
same @ 3/2 @ 3:2
same @ 3 : 2 @ 3:2
same @ \textbf{(C)} @ C
same @ C. 42 @ C
same @ C) 42 @ C
different @ C, D @ C
different @ C or D @ C
same @ Yes @ \text{yes}
same @ yes @ Yes
different @ no @ Yes
same @ \text{Monday} @ Monday
same @ No real solutions @ No real solutions
same @ \text{no real solutions} @ No real solutions
same @ \text{July 4, 2020} @ July 4, 2020
same @ 4 July 2020 @ July 4, 2020
different @ July 5, 2020 @ July 4, 2020
same @ \text{odd} @ odd
different @ even @ \text{odd}
same @ \infty @ +\infty
different @ 5 @ \infty
same @ \binom{10}{3} @ 120
same @ {10 \choose 3} @ 120
same @ 10!/7! @ 720
same @ \frac{10!}{7!3!} @ 120
same @ \gcd(12,18) @ 6
same @ |-5| @ 5
same @ \lfloor 3.7\rfloor @ 3
same @ x^{2}y @ yx^2
same @ -x+2 @ 2-x
same @ \frac{3a}{b} @ 3a/b
same @ 3ab^{-1} @ 3a/b
same @ 0.\overline{3} @ \frac13
same @ 0.1\overline{6} @ \frac16
same @ 0.\overline{3} @ 0.\overline{3}
different @ 0.3 @ 0.\overline{3}
same @ \frac{-1}{2} @ -\frac12
same @ -\frac{1}{2} @ \frac{-1}{2}
same @ .5 @ \frac12
same @ 0.50 @ .5
same @ 2k+2 @ 2(k+1)
same @ x=1,y=2 @ y=2,x=1
different @ x=1,y=3 @ y=2,x=1
same @ (x,y)=(1,2) @ (1,2)
same @ (x, y) = (1, 2) @ x=1,y=2
same @ (1,2),(3,4) @ (3,4),(1,2)
same @ (1,2) \text{ and } (3,4) @ (1,2),(3,4)
different @ (1,2) @ (1,2),(3,4)
different @ (2,1),(3,4) @ (1,2),(3,4)
different @ [1,2] @ (1,2)
different @ \{1,2\} @ (1,2)
different @ \text{undefined} @ 0
different @ 1/0 @ \infty
same @ 30\mathrm{~cm} @ 30
same @ 30 \, \mathrm{cm^2} @ 30
same @ 30\ \text{cm}^{2} @ 30 \text{ cm}^2
same @ 30 \text{ sq cm} @ 30 \text{ cm}^2
same @ \approx 3.21 @ 3.21
same @ x \approx 3.21 @ 3.21
same @ \text{13} @ 13
same @ \textbf{13} @ 13
same @ \mathrm{13} @ 13
same @ \bf 13 @ 13
same @ {13} @ 13
same @ \{13\} @ 13
same @ 12 \text{ (twelve)} @ 12
same @ n = 12 @ 12
same @ 12! @ 479001600
same @ 2^{10} @ 1024
same @ 2^10 @ 1024
same @ 2**10 @ 1024
same @ -(-5) @ 5
same @ 3 \cdot 4 @ 12
same @ 3\times 4 @ 12
same @ a_n = 2n+1 @ 2n+1
same @ \theta = \frac{\pi}{6} @ \frac{\pi}{6}
same @ \frac{\pi}{6}, \frac{5\pi}{6} @ \frac{5\pi}{6}, \frac{\pi}{6}
same @ 100\pi \text{ cm}^3 @ 100\pi
same @ \frac{1}{2^{98}} @ 2^{-98}
different @ \frac{1}{2^{98}} @ \frac{1}{2^{99}}
different @ \sqrt{2}+10^{-40} @ \sqrt2
different @ \sqrt{2}+10^{-300} @ \sqrt2
different @ \pi + 10^{-300} @ \pi
same @ n(n+1)/2 @ \frac{n^2+n}{2}
same @ 2^{n+1}-2 @ 2(2^n-1)
different @ 2^{n}-2 @ 2(2^n-1)
same @ e^{x}\cdot e^{2x} @ e^{3x}
same @ \ln(x^2) @ 2\ln x
same @ \frac{x^2-1}{x-1} @ x+1
different @ x @ \sqrt{x^2}
same @ \{x : x > 2\} @ x>2
same @ \{x \in \mathbb{R} \mid x > 2\} @ x>2
same @ five @ 5
same @ \text{twelve} @ 12
same @ 3 \frac{1}{2} \text{ hours} @ 3.5
same @ 1\,234.5 @ 1234.5
same @ 4\text{ mph} @ 4
same @ 12\text{ units} @ 12
same @ 12 \text{ square units} @ 12
same @ \text{12 cm} @ 12
same @ $12$ cm @ 12
same @ ((((((5)))))) @ 5
same @ ((x+1)(x+2)) @ (x+1)(x+2)
same @ (x+1)(x+2) @ (x+2)(x+1)
different @ 2\pi \approx 6.3 @ 6
same @ 2\pi \approx 6.28 @ 2\pi
same @ 2\pi \approx 6.28 @ 6.28
different @ 2\pi \approx 6.29 @ 2\pi
different @ 7 \approx 8 @ 8
different @ 7 \approx 8 @ 7
different @ 7 \neq 8 @ 7
different @ \text{not } 7 @ 7
different @ 7 \text{ (or maybe 8)} @ 7
same @ \text{Answer: } 5 @ 5
same @ USD 29 @ 29
same @ US\$29 @ 29
same @ \text{all real numbers} @ \mathbb{R}
same @ \text{no solution} @ \emptyset
same @ No solutions @ No real solutions
same @ \arctan 1 @ \frac{\pi}{4}
same @ \tan^{-1}(1) @ \frac{\pi}{4}
same @ \frac{\log 8}{\log 2} @ 3
same @ \sqrt{x^2+2x+1} @ |x+1|
different @ x+1 @ |x+1|
same @ f^{-1}(x) = \frac{x-1}{2} @ \frac{x-1}{2}
same @ \frac{x-1}{2} @ f^{-1}(x) = \frac{x-1}{2}
same @ (-\infty, -1] \cup [1, \infty) @ [1,\infty)\cup(-\infty,-1]
different @ (1,2)\cup(2,3) @ (1,3)
same @ (1,2]\cup(2,3) @ (1,3)
same @ [1,3]\cap[2,4] @ [2,3]
same @ -5 < x < 5 @ -5<x<5
same @ (-5,5) @ -5<x<5
same @ (-5,5) @ x \in (-5,5)
different @ -5<x<5 @ (-5,5)
same @ \frac{3}{4}\text{ cup} @ 0.75
same @ 5{,}000 @ 5000
same @ 5{,}000\text{ m} @ 5\text{ km}
same @ \text{5 km} @ 5000 \text{ m}
same @ 2.54\text{ cm} @ 1 \text{ inch}
different @ 5\text{ kg} @ 5\text{ m}
same @ 12\sqrt{3}\text{ cm}^2 @ 12\sqrt3
same @ \textbf{(C)}\ 12 @ C
same @ c @ c
different @ c @ d
same @ -\frac{1}{2} \text{ or } 3 @ 3, -\frac12
same @ x=3 \quad \text{or} \quad x=-\frac12 @ 3, -\frac12
same @ x \in \{3, -0.5\} @ 3, -\frac12
same @ x = 3, -\frac{1}{2} @ x=3 \text{ or } x=-\frac12
same @ a=1, b=2, c=3 @ (1,2,3)
same @ c=3, b=2, a=1 @ (1,2,3)
same @ (a,b,c)=(1,2,3) @ (1,2,3)
different @ (1,2) @ 1
different @ 1.5 @ 1 \frac{1}{5}
same @ $\frac{1}{2}$ @ 1/2
same @ \frac{1}{2}. @ 1/2
same @ 1 \frac 12 @ 3/2
same @ 3 \tfrac{1}{3} @ \frac{10}{3}
different @ 33 @ 3\frac{1}{3}
same @ 6.022e23 @ 6.022 \times 10^{23}
same @ 0.000030 @ 3 \cdot 10^{-5}
different @ 10^{-10} @ 0
different @ 0.0000001 @ 0
same @ 0.166667 @ \frac{1}{6}
different @ 0.166668 @ \frac{1}{6}
different @ 0.16667 @ \frac{1}{6}
same @ 166.666667 @ \frac{500}{3}
different @ 166.67 @ \frac{500}{3}
same @ 10:30 a.m. @ 10:30
same @ 10:30\ \text{AM} @ 10:30 \text{ a.m.}
different @ 10:31 @ 10:30
same @ 7 \text{ p.m.} @ 7 \text{ PM}
same @ 1:2:3 @ 2:4:6
same @ \{\frac12, 3\} @ \{3, 0.5\}
same @ \left\{ 1, 2 \right\} @ \{1,2\}
same @ \left\lbrace 1, 2 \right\rbrace @ \{1,2\}
same @ \{1,2\} @ 1, 2
same @ \{(1,2),(3,4)\} @ (1,2),(3,4)
same @ \sum_{k=1}^{n} k @ \sum_{k=1}^{n} k
different @ \sum_{k=1}^{10^9} \frac{1}{k} @ 21
different @ (10^9)! @ 5
different @ \int_0^1 x dx @ 7
same @ x^2-y^2 @ (x-y)(x+y)
same @ \frac{a}{b}\cdot c @ \frac{ac}{b}
same @ \dfrac{x}{2}+\dfrac{1}{3} @ \frac{3x+2}{6}
same @ 3x^{2}-2x+1 @ 1 - 2x + 3x^2
same @ y=-\dfrac{3}{4}x+2 @ 3x+4y=8
same @ x=\frac{-b\pm\sqrt{b^2-4ac}}{2a} @ \frac{-b\pm\sqrt{b^2-4ac}}{2a}
same @ n^2+n @ n(n+1)
different @ n^2 @ n(n+1)
same @ 2^{2n} @ 4^n
same @ \frac{1}{x^{2}} @ x^{-2}
same @ \cos(2\theta) @ 1-2\sin^2\theta
same @ \sec^2 x - 1 @ \tan^2 x
same @ i\sqrt{3} @ \sqrt{-3}
same @ -1+i\sqrt3 @ 2e^{2\pi i/3}
same @ \pm i @ i,-i
same @ \frac{1+\sqrt5}{2} @ \frac{2}{\sqrt5-1}
same @ 1 + 2 + 3 @ 6
same @ 12\ \text{cm} @ 12~\mathrm{cm}
same @ \$ 5 @ 5
same @ 5\$ @ 5
same @ 5^{\circ} @ 5
same @ -30^\circ @ -30
same @ 45^\circ \text{ and } 135^\circ @ 45^\circ, 135^\circ
same @ 45, 135 @ 45^\circ, 135^\circ
same @ 3, 5 \text{ cm} @ 3, 5
"""


@pytest.mark.parametrize("pair", PAIRS.strip().splitlines())
def test_pair(pair: str) -> None:
    verdict, answer, gold = pair.split(" @ ")
    assert (same_answer(answer, gold).status == "correct") == (verdict == "same")
