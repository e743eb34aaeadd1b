"""Files that options name: problems in several forms, and a model that is not the bundled one."""

import json
from pathlib import Path

from torch import nn

from groupwise.config.data import PromptOptions
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.model.adapter_options import Lora
from groupwise.model.load import load_policy
from groupwise.model.lora import save_adapters, with_adapters
from groupwise.model.prompt import PromptRenderer
from groupwise.model.save import save_model
from groupwise.problem import Message
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from tests.options.function_cases import FUNCTIONS_FILE
from tests.options.own_cases import OWN_FILE
from tests.support.zoo import save

COUNT = 8
TEMPLATE = "Q: {{ messages[-1].content }}\n{% if add_generation_prompt %}A{{ mark or ':' }}{% endif %}"


def questions(seed: int = 0) -> list[str]:
    return [arithmetic_problem(seed, "train", index).question for index in range(COUNT)]


def answers(seed: int = 0) -> list[str]:
    return [arithmetic_problem(seed, "train", index).answer for index in range(COUNT)]


def likely_answers(asked: list[str]) -> list[str]:
    """What the bundled model most likely answers, right or not: taken as the answer, some samples are right."""
    policy = load_policy("bundled")
    renderer = PromptRenderer(policy.tokenizer, PromptOptions())
    requests = [SampleRequest(renderer.render([Message("user", question)]).ids, (0,)) for question in asked]
    completions = InProcessEngine(policy, COUNT).generate(requests, SamplingParams(0.0, 24, policy.stop_ids))
    texts = [policy.tokenizer.decode(completion.ids) for (completion,) in completions]
    return [text.partition("boxed{")[2].partition("}")[0] for text in texts]


def write_files(folder: Path) -> dict[str, str]:
    """The path of every file by the name that stands for it in a case."""
    paths = {name: folder / f"{name}.jsonl" for name in ("other", "impossible", "likely", "columns", "domains")}
    asked, gold = questions(), answers()
    rows = {
        "other": [{"question": q, "answer": a} for q, a in zip(questions(5), answers(5), strict=True)],
        "likely": [{"question": q, "answer": a} for q, a in zip(asked, likely_answers(asked), strict=True)],
        "impossible": [{"question": q, "answer": "987654321"} for q in asked],
        # Two columns for everything, of which one is recognised by itself.
        "columns": [
            {"question": q, "answer": a, "asked": f"Please: {q}", "gold": f"{a}1", "domain": "sums", "kind": f"kind{i}"}
            for i, (q, a) in enumerate(zip(asked, gold, strict=True))
        ],
        "domains": [
            {"question": q, "answer": a, "domain": "even" if i % 2 == 0 else "odd"}
            for i, (q, a) in enumerate(zip(asked, gold, strict=True))
        ],
    }
    for name, path in paths.items():
        path.write_text("".join(json.dumps(row) + "\n" for row in rows[name]), encoding="utf-8")
    (folder / "functions.py").write_text(FUNCTIONS_FILE, encoding="utf-8")
    (folder / "own.py").write_text(OWN_FILE, encoding="utf-8")
    (folder / "template.jinja").write_text(TEMPLATE, encoding="utf-8")
    model = folder / "model"
    model.mkdir()
    policy = load_policy("bundled")
    policy.model.get_input_embeddings().weight.data.mul_(1.02)
    save_model(policy, model)
    save_model(policy, folder / "half", "float16")
    save("Qwen3-MoE", folder / "experts")
    for name, seed in (("adapter", 1), ("adapter2", 2)):
        (folder / name).mkdir()
        adapted = with_adapters(load_policy("bundled"), Lora(rank=4), seed)
        for key, weight in adapted.trainable():
            if "lora_B" in key:
                nn.init.constant_(weight, 1e-3)
        save_adapters(adapted, folder / name)
    return {name: str(path) for name, path in paths.items()} | {
        "model": str(model),
        "half": str(folder / "half"),
        "adapter": str(folder / "adapter"),
        "adapter2": str(folder / "adapter2"),
        "experts": str(folder / "experts"),
        "functions": str(folder / "functions.py"),
        "own": str(folder / "own.py"),
        "template": str(folder / "template.jinja"),
        "folder": str(folder),
    }
