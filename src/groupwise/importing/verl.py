"""From a configuration of verl's PPO trainer to a configuration of groupwise."""

import math
from typing import Any

from groupwise.errors import DataError
from groupwise.importing.option_rows import fields_of
from groupwise.importing.record import Draft, Imported, Source
from groupwise.importing.verl_loss import objective

_ACTOR = "actor_rollout_ref.actor"
_OPTIM = f"{_ACTOR}.optim"
_ROLLOUT = "actor_rollout_ref.rollout"
_TOTALS = ("score", "reward", "seq_reward", "seq_final_reward")
# verl generates without an end; groupwise always has one.
_MANY = 1000.0

# Where versions of verl name the reward manager.
MANAGERS = ("reward_model.reward_manager", "reward.reward_manager.name")

# Where versions of verl keep the soft overlong penalty.
OVERLONG = (
    "reward.reward_kwargs.overlong_buffer_cfg",
    "reward_model.reward_kwargs.overlong_buffer_cfg",
    "reward_model.overlong_buffer",
)


def translate(source: Source, problems: int | None = None) -> Imported:
    """The configuration that means what the file means.

    Args:
        source: the file's keys.
        problems: how many the training data has, to count the steps of an epoch.

    Raises:
        DataError: values that verl or groupwise could not take.
    """
    draft = Draft("verl", fields_of("verl"), source)
    draft.copy_and_sort()
    _batch(draft)
    _filter(draft)
    _length(draft, problems)
    _optimizer(draft)
    _sampling(draft)
    objective(draft)
    _rewards(draft)
    _overlong(draft)
    _files(draft)
    return draft.finish()


def _batch(draft: Draft) -> None:
    key = f"{_ACTOR}.ppo_mini_batch_size"
    prompts, minibatch = draft["data.train_batch_size"], draft[key]
    if minibatch < 1 or prompts < 1:
        raise DataError(f"{draft.source.place(key)}: {key} and data.train_batch_size must be at least 1")
    minibatches = math.ceil(prompts / minibatch)
    if prompts % minibatch:
        draft.differs(key, prompts=prompts, minibatch=minibatch, minibatches=minibatches)
    draft.set("batch.minibatches_per_step", minibatches, key)


def _filter(draft: Draft) -> None:
    section = "algorithm.filter_groups"
    if not draft[f"{section}.enable"]:
        draft.set_in("active_sampling", f"{section}.enable", filter="none", refill=False)
        draft.note("verl trains on every group, also those without signal: active_sampling.filter is none")
        return
    metric = draft[f"{section}.metric"] or "seq_reward"
    if metric != "acc" and metric not in _TOTALS:
        draft.differs(f"{section}.metric", f"no metric {metric}; groups are filtered on their total reward")
    draft.set("active_sampling.filter", "correctness" if metric == "acc" else "total", f"{section}.metric")
    draft.set("active_sampling.refill", True, f"{section}.enable")
    batches, prompts = draft[f"{section}.max_num_gen_batches"], draft["data.train_batch_size"]
    factor = batches * (draft["data.gen_batch_size"] or prompts) / prompts if batches > 0 else _MANY
    draft.set("active_sampling.max_prompts_per_step_factor", max(factor, 1.0), f"{section}.max_num_gen_batches")


def _length(draft: Draft, problems: int | None) -> None:
    steps, epochs = draft["trainer.total_training_steps"], draft["trainer.total_epochs"]
    if steps:
        draft.set("run.steps", steps, "trainer.total_training_steps")
    elif problems is not None:
        per_epoch = max(problems // draft["data.train_batch_size"], 1)
        draft.set("run.steps", epochs * per_epoch, "trainer.total_epochs")
    else:
        draft.absent("trainer.total_epochs", epochs=epochs)


def _optimizer(draft: Draft) -> None:
    style = "warmup_style" if draft[f"{_OPTIM}.warmup_style"] else "lr_scheduler_type"
    schedule = draft.choose(f"{_OPTIM}.{style}")
    draft.set("optimizer.schedule", schedule, f"{_OPTIM}.{style}")
    if schedule == "cosine" and draft[f"{_OPTIM}.min_lr_ratio"]:
        draft.set("optimizer.final_lr_fraction", draft[f"{_OPTIM}.min_lr_ratio"], f"{_OPTIM}.min_lr_ratio")
    warmup, share = draft[f"{_OPTIM}.lr_warmup_steps"], draft[f"{_OPTIM}.lr_warmup_steps_ratio"]
    # verl begins at 0, so that the peak is one step later.
    if warmup > 0:
        draft.set("optimizer.warmup_steps", warmup + 1, f"{_OPTIM}.lr_warmup_steps")
    elif share and draft.get("run.steps") is not None:
        warmup = int(share * draft.get("run.steps"))
        draft.set("optimizer.warmup_steps", warmup + (warmup > 0), f"{_OPTIM}.lr_warmup_steps_ratio")
    elif share:
        draft.absent(f"{_OPTIM}.lr_warmup_steps_ratio", share=share)
    clip = f"{_OPTIM}.clip_grad" if draft[f"{_OPTIM}.clip_grad"] is not None else f"{_ACTOR}.grad_clip"
    draft.set("optimizer.max_grad_norm", draft[clip], clip)
    betas = draft[f"{_OPTIM}.betas"]
    if len(betas) != 2:
        raise DataError(f"{draft.source.place(f'{_OPTIM}.betas')}: {_OPTIM}.betas: expected two numbers, found {betas}")
    draft.set_in("optimizer", f"{_OPTIM}.betas", beta1=betas[0], beta2=betas[1])
    dtype = f"{_ACTOR}.fsdp_config.dtype"
    draft.set("model.compute_dtype", "float32" if draft[dtype] in ("fp32", "float32") else "bfloat16", dtype)


def _sampling(draft: Draft) -> None:
    top_k, top_p = max(draft[f"{_ROLLOUT}.top_k"], 0), draft[f"{_ROLLOUT}.top_p"]
    draft.set("sampling.top_k", top_k, f"{_ROLLOUT}.top_k")
    if top_k or top_p != 1:
        key = f"{_ROLLOUT}.top_k" if top_k else f"{_ROLLOUT}.top_p"
        draft.set("sampling.replay_mask", True, key)
        draft.differs(key, "verl scores the whole vocabulary; groupwise scores over the tokens that were kept")


def _rewards(draft: Draft) -> None:
    """The two scores of the `dapo` reward manager; the penalty below is of no other."""
    key = next((key for key in MANAGERS if draft[key]), "")
    penalised = next((f"{section}.enable" for section in OVERLONG if draft[f"{section}.enable"]), "")
    own = any(draft[f"{section}custom_reward_function.path"] for section in ("", "reward."))
    if own or (draft[key] != "dapo" if key else not penalised):
        return
    draft.set("rewards.correctness.weight", 2.0, key or penalised)
    draft.differs(key or MANAGERS[0])


def _overlong(draft: Draft) -> None:
    """The soft overlong penalty of the `dapo` reward manager."""
    for section in OVERLONG:
        if not draft[f"{section}.enable"] or not draft[f"{section}.len"]:
            continue
        draft.set("rewards.overlong.buffer_tokens", draft[f"{section}.len"], f"{section}.len")
        draft.set("rewards.overlong.weight", draft[f"{section}.penalty_factor"], f"{section}.penalty_factor")
        longest = f"{section.partition('.')[0]}.reward_kwargs.max_resp_len"
        if draft[longest] not in (None, draft["data.max_response_length"]):
            draft.differs(longest, f"the penalty ends at sampling.max_new_tokens here, at {draft[longest]} in verl")


def _files(draft: Draft) -> None:
    section = "data.apply_chat_template_kwargs."
    stated = {key: value for key, value in draft.source.values.items() if key.startswith(section)}
    if stated:
        arguments = {key.removeprefix(section): value for key, value in stated.items()}
        draft.set("prompt.template_arguments", arguments, next(iter(stated)))
    trained, measured = _files_of(draft, "data.train_files"), _files_of(draft, "data.val_files")
    if len(trained) > 1:
        draft.absent("data.train_files", files=len(trained))
    elif trained:
        draft.set("problems.train", trained[0], "data.train_files")
    if measured:
        draft.set("problems.eval", measured if len(measured) > 1 else measured[0], "data.val_files")
    if draft["data.prompt_key"] != "prompt":
        draft.set("problems.columns.problem", draft["data.prompt_key"], "data.prompt_key")
    if draft.states("trainer.save_freq"):
        draft.set("run.checkpoint_every_steps", max(draft["trainer.save_freq"], 0), "trainer.save_freq")
    if draft["trainer.test_freq"] > 0 and draft.get("problems.eval"):
        draft.set("problems.eval_every_steps", draft["trainer.test_freq"], "trainer.test_freq")


def _files_of(draft: Draft, key: str) -> list[Any]:
    files = draft[key]
    return files if isinstance(files, list) else [files] if files else []
