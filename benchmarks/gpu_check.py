"""Prove groupwise on the accelerator of this machine: `python benchmarks/gpu_check.py [--model PATH]`.

Writes one report (gpu_check.md and .json): that device and CPU compute the same (log-probabilities, gradient, sampled
tokens), what a run takes in memory against what was planned, and seconds and tokens a second of a step, with vLLM as
the engine where it is installed, and of TRL where --trl-python has it, without vLLM and with it.

Without an accelerator the same is done on the CPU with few steps. That shows that this script runs; nothing of such a
report is a measurement of a card, and it says so.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from groupwise.errors import GroupwiseError
from groupwise.model.device import Chosen, choose_device
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.track.tracker import Tracker
from groupwise.training.run import compose_and_start

OF_TRL = Path(__file__).parent / "versus" / "on_a_card.py"


class Notes(Tracker):
    """Keeps what a run says of itself."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """See `Tracker`."""
        self.notes.append(text)


def main() -> None:
    """Measure and write the report."""
    options = parser().parse_args()
    chosen = choose_device(options.device)
    is_dry = chosen.device.type == "cpu"
    print(NO_CARD if is_dry else f"on {chosen.device} {chosen.name}", flush=True)
    record: dict[str, Any] = {
        "device": str(chosen.device),
        "name": chosen.name,
        "is_dry": is_dry,
        "model": options.model,
        "torch": torch.__version__,
        "parity": parity(options.model, chosen),
        "speed": speed(options, chosen),
    }
    Path(f"{options.output}.json").write_text(json.dumps(record, indent=1) + "\n")
    Path(f"{options.output}.md").write_text(report(record))
    print(report(record))


NO_CARD = "No accelerator on this machine: a dry run on the CPU, which shows that the script works and measures no card"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--model", default="bundled")
    made.add_argument("--device", default="auto", help="as model.device")
    made.add_argument("--steps", type=int, default=4, help="of each trainer; the first is left out")
    made.add_argument("--prompts", type=int, default=4)
    made.add_argument("--samples", type=int, default=4)
    made.add_argument("--max-new", type=int, default=32)
    made.add_argument("--trl-python", default="", help="interpreter of an environment with TRL; empty for none")
    made.add_argument("--output", default="gpu_check", help="the report, without its ending")
    return made


def parity(model: str, chosen: Chosen) -> dict[str, Any]:
    """Device against CPU in float32, and bfloat16 on the device against it, on the same tokens."""
    exact, there = load_policy(model), load_policy(model, device=chosen.device)
    reduced = load_policy(model, "bfloat16", device=chosen.device)
    ids = np.random.default_rng(0).integers(5, exact.vocabulary or 100, (4, 48))
    groups = [SequenceGroup(row[:16], (row[16:40], row[20:])) for row in ids]
    logps_N, gradient = scored(exact, groups)
    made: dict[str, Any] = {}
    for name, policy in (("float32", there), ("bfloat16", reduced)):
        own_N, own = scored(policy, groups)
        made[name] = {
            "largest_logp_gap_nats": float((own_N - logps_N).abs().max()),
            "gradient_gap": float((own - gradient).norm() / gradient.norm()),
        }
    requests = [SampleRequest(row[:16], (n, n + 100)) for n, row in enumerate(ids)]
    tokens = [sampled(policy, requests) for policy in (exact, there)]
    same = [np.array_equal(one, other) for one, other in zip(*tokens, strict=True)]
    return made | {"same_sampled_answers": sum(same), "sampled_answers": len(same)}


def scored(policy: Policy, groups: list[SequenceGroup]) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities over N and the gradient of their sum, on the CPU."""
    logps_N = score(policy, pack(groups, policy.device), Scoring(1.0, 1024)).logps_N
    weights = [weight for _, weight in policy.trainable()]
    gradients = torch.autograd.grad(logps_N.sum(), weights)
    return logps_N.detach().cpu(), torch.cat([gradient.flatten().cpu() for gradient in gradients])


def sampled(policy: Policy, requests: list[SampleRequest]) -> list[np.ndarray[Any, Any]]:
    """The tokens of every answer."""
    sampling = SamplingParams(temperature=1.0, max_new_tokens=24, stop_ids=policy.stop_ids)
    made = InProcessEngine(policy, batch_sequences=8).generate(requests, sampling)
    return [completion.ids for completions in made for completion in completions]


def speed(options: argparse.Namespace, chosen: Chosen) -> dict[str, Any]:
    """Each trainer in turn: what it measured, or why it did not run."""
    has_vllm = importlib.util.find_spec("vllm") is not None
    made: dict[str, Any] = {"groupwise": of_groupwise(options, chosen, "inprocess")}
    made["groupwise, vLLM"] = of_groupwise(options, chosen, "vllm") if has_vllm else "vLLM is not installed"
    for name, with_vllm in (("TRL", False), ("TRL, vLLM", True)):
        made[name] = of_trl(options, chosen, with_vllm) if options.trl_python else "no --trl-python"
    return made


def of_groupwise(options: argparse.Namespace, chosen: Chosen, engine: str) -> Any:
    """A run of this process."""
    if chosen.device.type != "cpu":
        torch.accelerator.reset_peak_memory_stats()
    told = Notes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            compose_and_start(
                [
                    f"model.path={options.model}",
                    f"model.device={options.device}",
                    f"engine={engine}",
                    "problems.eval_problems=0",
                    "active_sampling.filter=none",
                    "objective.old_logps=trainer",
                    "batch.minibatches_per_step=1",
                    f"run.steps={options.steps}",
                    f"batch.prompts_per_step={options.prompts}",
                    f"batch.samples_per_prompt={options.samples}",
                    f"sampling.max_new_tokens={options.max_new}",
                    f"run.output={folder}/run",
                ],
                False,
                told,
            )
        except GroupwiseError as error:
            return f"failed: {error}"
        lines = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()][1:]
    peak = 0 if chosen.device.type == "cpu" else torch.accelerator.max_memory_allocated()
    return {
        "seconds": statistics.median(line["time/step_seconds"] for line in lines),
        "tokens_per_second": statistics.median(line["time/tokens_per_second"] for line in lines),
        "peak_bytes": peak,
        "planned": next((note for note in told.notes if note.startswith("memory")), ""),
        "largest_engine_gap_nats": max(line["engine/logp_gap_max"] for line in lines),
    }


def of_trl(options: argparse.Namespace, chosen: Chosen, with_vllm: bool) -> Any:
    """TRL with the same sizes, in a process of its own environment."""
    from groupwise.model.size import model_folder

    with tempfile.TemporaryDirectory() as folder:
        asked = {
            "model": str(model_folder(options.model)),
            "steps": options.steps,
            "prompts": options.prompts,
            "samples": options.samples,
            "max_new": options.max_new,
            "vllm": with_vllm,
            "on_cpu": chosen.device.type == "cpu",
            "folder": folder,
        }
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [options.trl_python, str(OF_TRL), json.dumps(asked)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        return json.loads((Path(folder) / "result.json").read_text())


def report(record: dict[str, Any]) -> str:
    """The record in Markdown."""
    close = record["parity"]
    lines = [
        f"# groupwise on {record['name'] or record['device']}",
        "",
        *([NO_CARD, ""] if record["is_dry"] else []),
        f"Model {record['model']}, torch {record['torch']}.",
        "",
        "| against the CPU in float32 | largest gap, nats | gradient, relative |",
        "|---|---|---|",
        *(
            f"| {name} | {close[name]['largest_logp_gap_nats']:.2g} | {close[name]['gradient_gap']:.2g} |"
            for name in ("float32", "bfloat16")
        ),
        "",
        f"Equal sampled answers: {close['same_sampled_answers']} of {close['sampled_answers']}.",
        "",
        "| | s a step | tokens a second | peak MiB on the device |",
        "|---|---|---|---|",
    ]
    for name, made in record["speed"].items():
        if isinstance(made, str):
            lines.append(f"| {name} | {made} | | |")
        else:
            peak = f"{made['peak_bytes'] / 2**20:.0f}" if made["peak_bytes"] else "not measured"
            lines.append(f"| {name} | {made['seconds']:.3f} | {made['tokens_per_second']:.0f} | {peak} |")
    planned = record["speed"]["groupwise"]
    return "\n".join([*lines, "", planned if isinstance(planned, str) else planned["planned"], ""])


if __name__ == "__main__":
    sys.exit(main())
