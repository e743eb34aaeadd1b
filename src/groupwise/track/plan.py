"""What a run says of itself before its first step."""

from groupwise.completion import Prompt
from groupwise.config import TrainConfig
from groupwise.explaining.report import plan_lines as explain_lines
from groupwise.model.load import Policy
from groupwise.model.size import size_of


def plan_lines(
    config: TrainConfig, policy: Policy, problems: str, eval_problems: int, longest_prompt: int, first: Prompt
) -> list[str]:
    """The derived table of a run: what one step consists of, and how the first prompt looks to the model."""
    batch = config.batch
    weights = f"{sum(weight.numel() for _, weight in policy.trainable()) / 1e6:.2f} M trained weights"
    if policy.adapter is not None:
        weights += f" of adapters over {size_of(policy.model).parameters / 1e6:.2f} M"
    updates = batch.epochs_per_step * batch.minibatches_per_step
    # As the model sees it: with what the tokenizer put in front of the text.
    prompt = str(policy.tokenizer.decode(first.ids.tolist(), skip_special_tokens=False)).replace("\n", "\\n")
    shown = prompt if len(prompt) <= 160 else f"{prompt[:60]} … {prompt[-96:]}"
    measured = f"measured on {eval_problems} held-out problems" if eval_problems else "not measured"
    head = policy.model.get_output_embeddings().weight.shape[0]
    spare = head - (policy.vocabulary or head)
    unused = f"; the tokenizer has no tokens for {spare} of {head} ids, which are never sampled" if spare else ""
    return [
        f"model     {policy.name}: {weights}, {config.model.computes_in} compute{unused}",
        f"problems  {problems}; {measured}",
        f"step      {batch.prompts_per_step} problems × {batch.samples_per_prompt} samples of at most "
        f"{config.sampling.max_new_tokens} tokens, {updates} optimizer {'step' if updates == 1 else 'steps'}; "
        f"{config.run.steps} steps",
        *explain_lines(config),
        f"prompt    longest {longest_prompt} tokens, the first is: {shown}",
    ]
