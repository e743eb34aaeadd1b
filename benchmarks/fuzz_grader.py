"""Coverage-guided fuzzing of the grader of mathematics: `python benchmarks/fuzz_grader.py --minutes 10 --seed 1`.

Needs atheris (`pip install 'groupwise[fuzz]'`). libFuzzer keeps the inputs that reach code that none reached before;
they begin with the pairs of tests/math/corpus, and are changed token by token, or by whole expressions of a small
grammar of LaTeX. An input is an answer and a reference answer, for which has to hold:

- a verdict without an exception, of the statuses that the grader has, in less than --milliseconds of CPU time;
- the reference answer accepts itself in a box, or is refused as unusable;
- the answer, alone or in a box, is not correct for an unrelated number of 18 digits;
- where the answer is wrong for the reference answer, the reference answer is not correct for the answer, save where
  the policy is one-sided: percent, units, number bases, residues, inequalities, tuples.

What breaks one of these is written to --output, one JSON object a line; the exit code is then 1.
"""

import argparse
import json
import math
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import atheris
from latex_grammar import changed, expression

with atheris.instrument_imports(include=["groupwise.grading.math"]):
    from groupwise.grading.math.math_grader import gold_error, grade

sys.path.insert(0, str(Path(__file__).parents[1]))

from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import SPECIAL_TOKEN, Response, Verdict
from tests.grading.math.corpus import KINDS, all_cases

TIMED = """
import json, sys, time
from groupwise.grading.math.math_grader import grade
from groupwise.grading.math.math_options import MathOptions
from groupwise.grading.records import Response
text, truncated, opened, gold, mode = json.load(sys.stdin)
times = []
for _ in range(3):
    start = time.process_time()
    grade(Response((), text, truncated, opened), gold, MathOptions(answer=mode))
    times.append(1e3 * (time.process_time() - start))
print(min(times))
"""
STATUSES = ("correct", "wrong", "no_answer", "gold_bad", "undecided")
UNRELATED = "918273645546372819"
ATTEMPTS = 5
MOST_FAILURES = 200
MOST_BYTES = 4096
MODES = ("marked", "boxed", "gsm8k", "answer_tag", "last_number", "lenient")
POLICIES = tuple(MathOptions.model_validate({"answer": mode}) for mode in MODES)
BOXED = MathOptions(answer="boxed")
PARTS = "\x1e"
MARK = re.compile(rf"boxed|fbox|####|</?think>|{SPECIAL_TOKEN.pattern}")
OPTION_LETTER = re.compile(r"[^A-Za-z]*[A-Za-z][^A-Za-z]*")
ONE_SIDED_COMMAND = re.compile(
    r"\\(?:equiv|p?mod|Omega|text|math|operator|mbox|[lg]eq?|[lg]t|in|pmatrix|circ|deg|%|\$|langle|left|big|neq?|approx"
    r"|cup|cap|setminus)"
)
ONE_SIDED = re.compile(r"%|_|[<>≤≥≡Ω]|[A-Za-z]{2}|\d\s*[mgshlLNJWVK]|°|[$£€¥:=∈\[\](),]")
COMMAND = re.compile(r"\\[A-Za-z]+")


def mutate(raw: bytes, most_bytes: int, seed: int) -> bytes:
    """The mutator of libFuzzer: mostly one or two changes by tokens, sometimes its own by bytes."""
    dice = random.Random(seed)
    if dice.random() < 0.1:
        return bytes(atheris.Mutate(raw, most_bytes))
    mode, answer, gold = parts_of(raw)
    for _ in range(dice.choice((1, 1, 2, 4))):
        if dice.random() < 0.6:
            answer = changed(answer, dice)
        else:
            gold = changed(gold, dice)
    draw = dice.random()
    if draw < 0.05:
        mode = dice.randrange(256)
    elif draw < 0.10:
        gold = answer
    elif draw < 0.15:
        gold = expression(dice, 3)
    return as_bytes(mode, answer, gold)[:most_bytes]


def as_bytes(mode: int, answer: str, gold: str) -> bytes:
    """An input of the fuzzer."""
    return bytes([mode % 256]) + f"{answer}{PARTS}{gold}".encode("utf-8", "surrogatepass")


def parts_of(raw: bytes) -> tuple[int, str, str]:
    """The mode, the answer and the reference answer of an input, whatever its bytes."""
    answer, _, gold = raw[1:].decode("utf-8", "replace").partition(PARTS)
    return (raw[0] if raw else 0), answer, gold


def seeds() -> Iterator[bytes]:
    """The pairs of the corpus, without its long ones."""
    for kind in KINDS.values():
        for answer, gold in (*kind.same, *kind.different, *kind.same_one_way, *kind.different_one_way):
            yield as_bytes(0, answer, gold)
    for case in all_cases():
        if len(case.response.text) < 200:
            yield as_bytes(MODES.index(case.policy.answer), case.response.text, case.gold)


class Findings:
    """What went wrong, on disk as soon as it is found, and the slowest input."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.count = 0
        self.worst_milliseconds = 0.0
        self.worst: tuple[str, str] = ("", "")
        self.inputs = 0

    def add(self, reason: str, response: str, gold: str, got: str) -> None:
        self.count += 1
        with self.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"reason": reason, "response": response, "gold": gold, "got": got}) + "\n")

    def report(self) -> None:
        """The numbers of the run."""
        memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{self.inputs} inputs, {self.count} failures, slowest {self.worst_milliseconds:.1f} ms with instruments, "
            f"{memory_mb} MB\n"
            f"slowest: {self.worst[0][:200]!r} for {self.worst[1][:80]!r}",
            flush=True,
        )


def balanced(text: str) -> bool:
    """Whether a box around the text ends where it should: braces balance, and no mark of an answer stands inside."""
    depth, escaped = 0, False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth < 0:
                return False
    return depth == 0 and not escaped and not MARK.search(text)


def plain_milliseconds(response: Response, gold: str, policy: MathOptions) -> float:
    """CPU time of a grading in a process without instruments, which cost a factor of about five."""
    given = json.dumps([response.text, response.truncated, response.opened, gold, policy.answer])
    command = [sys.executable, "-c", TIMED]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=True)
    return float(done.stdout)


def is_one_sided(text: str) -> bool:
    """Whether an answer or a reference answer has a form that the policy treats differently on the two sides."""
    if OPTION_LETTER.fullmatch(text):
        return True
    return bool(ONE_SIDED_COMMAND.search(text) or ONE_SIDED.search(COMMAND.sub(" ", text)))


def check(
    findings: Findings, response: Response, gold: str, policy: MathOptions, most_milliseconds: float
) -> Verdict | None:
    """The verdict, after the checks that hold for every input."""
    least = math.inf
    for _ in range(ATTEMPTS):
        start = time.process_time()
        try:
            verdict = grade(response, gold, policy)
        except Exception as error:
            findings.add("exception", response.text, gold, repr(error)[:300])
            return None
        least = min(least, 1e3 * (time.process_time() - start))
        if least < most_milliseconds:
            break
    if least > findings.worst_milliseconds:
        findings.worst_milliseconds, findings.worst = least, (response.text, gold)
    if least >= most_milliseconds:
        confirmed = plain_milliseconds(response, gold, policy)
        if confirmed >= most_milliseconds:
            findings.add(f"{confirmed:.0f} ms", response.text, gold, verdict.status)
    if verdict.status not in STATUSES or (verdict.score == 1.0) != (verdict.status == "correct"):
        findings.add("status", response.text, gold, repr(verdict)[:300])
    return verdict


def run_one(findings: Findings, raw: bytes, most_milliseconds: float) -> None:
    """All checks on one input of the fuzzer."""
    findings.inputs += 1
    mode, answer, gold = parts_of(raw)
    policy = POLICIES[mode % len(POLICIES)]
    flags = mode // len(POLICIES) % 4
    boxed = Response((), rf"So it is $\boxed{{{answer}}}$.")
    written = Response((), answer, truncated=flags == 1, opened=flags == 2)
    for response in (boxed, written):
        verdict = check(findings, response, UNRELATED, policy, most_milliseconds)
        if verdict is not None and verdict.status == "correct" and UNRELATED not in answer:
            findings.add("an unrelated number", response.text, UNRELATED, "correct")
    there = check(findings, boxed, gold, BOXED, most_milliseconds)
    if not balanced(answer):
        return
    itself = check(findings, boxed, answer, BOXED, most_milliseconds)
    fault = gold_error(answer, BOXED)
    if itself is not None and itself.status != ("gold_bad" if fault else "correct"):
        findings.add("a reference that does not accept itself", boxed.text, answer, f"{itself.status} {fault!r}")
    if balanced(gold) and not is_one_sided(answer) and not is_one_sided(gold):
        back = check(findings, Response((), rf"So it is $\boxed{{{gold}}}$."), answer, BOXED, most_milliseconds)
        if there is not None and back is not None and {there.status, back.status} == {"correct", "wrong"}:
            findings.add("one way only", answer, gold, f"{there.status}, {back.status} the other way round")


def fuzz(arguments: argparse.Namespace, folder: Path) -> None:
    """Fuzz until the time is over, in this process, which libFuzzer does not give back."""
    findings = Findings(arguments.output)
    limit = time.monotonic() + 60 * arguments.minutes
    corpus = arguments.corpus or folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed{number}").write_bytes(seed)

    def one_input(raw: bytes) -> None:
        if time.monotonic() < limit and findings.count < MOST_FAILURES:
            run_one(findings, raw, arguments.milliseconds)
            return
        findings.report()
        os._exit(1 if findings.count else 0)

    options = [f"-seed={arguments.seed}", f"-max_len={MOST_BYTES}", "-timeout=60", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(corpus)], one_input, custom_mutator=mutate)
    atheris.Fuzz()


def watch(command: list[str]) -> int:
    """Run the fuzzing process, and print what libFuzzer says of coverage: edges, and features as it counts them."""
    reached = "nothing"
    last: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stderr is not None
        for line in process.stderr:
            last = [*last[-20:], line]
            found = re.search(r"cov: (\d+) ft: (\d+) corp: (\d+)", line)
            if found:
                reached = f"{found[1]} edges, {found[2]} features, {found[3]} inputs kept"
    print(f"coverage: {reached}")
    if process.returncode not in (0, 1):
        print("".join(last), file=sys.stderr)
        return 1
    return process.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--milliseconds", type=float, default=50.0, help="CPU time that one grading may take")
    parser.add_argument("--output", type=Path, default=Path("fuzz_failures.jsonl"))
    parser.add_argument("--corpus", type=Path, help="folder with inputs to begin with, and to keep those found in")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        fuzz(arguments, arguments.folder)
        return
    arguments.output.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(watch([sys.executable, __file__, *sys.argv[1:], f"--folder={folder}"]))


if __name__ == "__main__":
    main()
