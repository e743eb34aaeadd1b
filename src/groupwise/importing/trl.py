"""From a GRPOConfig of TRL 1.16 to a configuration of groupwise."""

import math

from groupwise.errors import DataError
from groupwise.importing.option_rows import fields_of
from groupwise.importing.record import Draft, Imported, Source
from groupwise.importing.trl_loss import objective


def translate(source: Source, processes: int = 1, problems: int | None = None) -> Imported:
    """The configuration that means what the file means.

    Args:
        source: the file's keys.
        processes: how many the run was launched on, which no file of TRL says.
        problems: how many the training data has, to count the steps of an epoch.

    Raises:
        DataError: values that TRL or groupwise could not take.
    """
    draft = Draft("TRL", fields_of("trl"), source)
    draft.copy_and_sort()
    updates = _batch(draft, processes)
    _length(draft, updates, problems)
    _learning_rate(draft, updates)
    _arithmetic(draft)
    _sampling(draft)
    objective(draft, updates)
    _files(draft, updates)
    return draft.finish()


def _batch(draft: Draft, processes: int) -> int:
    """Prompts, minibatches and passes of a step; the optimizer steps of one."""
    for key in ("per_device_train_batch_size", "gradient_accumulation_steps", "num_generations", "num_iterations"):
        if draft[key] < 1:
            raise DataError(f"{draft.source.place(key)}: {key}: found {draft[key]}, expected at least 1")
    accumulated, group = draft["gradient_accumulation_steps"], draft["num_generations"]
    per_pass = draft["per_device_train_batch_size"] * processes
    if draft["generation_batch_size"] is not None and draft["steps_per_generation"] is not None:
        raise DataError(
            f"{draft.source.name}: generation_batch_size and steps_per_generation state the same; TRL takes one of them"
        )
    if draft["generation_batch_size"] is not None:
        passes = draft["generation_batch_size"] // max(per_pass, 1)
    else:
        passes = draft["steps_per_generation"] or accumulated
    origin = "per_device_train_batch_size"
    completions = per_pass * max(passes, accumulated)
    if passes < 1 or completions % group:
        raise DataError(
            f"{draft.source.place(origin)}: {completions} completions of one generation (per_device_train_batch_size "
            f"{draft[origin]} · {processes} processes · {max(passes, accumulated)} passes) are not whole groups of "
            f"num_generations {group}; name the number of processes with --processes"
        )
    prompts, minibatches = completions // group, max(passes // accumulated, 1)
    if max(passes, accumulated) % min(passes, accumulated):
        draft.differs("gradient_accumulation_steps", minibatches=minibatches)
    elif passes < accumulated and draft["num_iterations"] > 1:
        draft.differs("num_iterations")
    if minibatches > prompts:
        draft.differs("steps_per_generation", prompts=prompts, minibatches=minibatches)
        minibatches = prompts
    draft.set_in("batch", origin, prompts_per_step=prompts, minibatches_per_step=minibatches)
    draft.differs(
        origin,
        f"TRL counts completions: {completions} of one generation on {processes} "
        f"{'process' if processes == 1 else 'processes'} are {prompts} prompts of {group}, trained on in {minibatches} "
        f"optimizer {'step' if minibatches == 1 else 'steps'} a pass",
    )
    return int(minibatches * draft["num_iterations"])


def _length(draft: Draft, updates: int, problems: int | None) -> None:
    steps, key = None, "max_steps"
    if draft["max_steps"] > 0:
        steps = math.ceil(draft["max_steps"] / updates)
        if updates > 1:
            draft.differs(key, f"TRL counts optimizer steps; {draft[key]} of them are {steps} steps of {updates}")
    elif problems is not None:
        key = "num_train_epochs"
        steps = max(int(draft[key] * problems) // draft.get("batch.prompts_per_step"), 1)
    else:
        draft.absent("num_train_epochs", epochs=draft["num_train_epochs"])
    if steps is not None:
        draft.set("run.steps", steps, key)


def _learning_rate(draft: Draft, updates: int) -> None:
    draft.set("optimizer.schedule", draft.choose("lr_scheduler_type"), "lr_scheduler_type")
    kwargs = draft["lr_scheduler_kwargs"] or {}
    lowest, rate = kwargs.get("min_lr"), kwargs.get("min_lr_rate")
    if rate is None and type(lowest) in (int, float) and draft["learning_rate"] > 0:
        rate = lowest / draft["learning_rate"]
    if rate:
        draft.set("optimizer.final_lr_fraction", rate, "lr_scheduler_kwargs")
    for key in sorted(set(kwargs) - {"min_lr", "min_lr_rate"}):
        draft.absent(f"lr_scheduler_kwargs.{key}", "the schedules have no further options")
    key = "warmup_ratio" if draft["warmup_ratio"] and not draft["warmup_steps"] else "warmup_steps"
    warmup = draft[key]
    if warmup <= 0 or draft["lr_scheduler_type"] == "constant":
        return
    if warmup < 1:
        if draft.get("run.steps") is None:
            draft.absent(key, f"a share of {warmup} of a length that is not known: set optimizer.warmup_steps")
            return
        total = draft["max_steps"] if draft["max_steps"] > 0 else draft.get("run.steps") * updates
        warmup = math.ceil(warmup * total)
    # The rollout in which the peak is reached: that of the optimizer step with this number, the first being 0.
    draft.set("optimizer.warmup_steps", math.ceil(warmup) // updates + 1, key)


def _arithmetic(draft: Draft) -> None:
    if not str(draft["optim"]).startswith("adamw"):
        draft.absent("optim", f"no optimizer {draft['optim']}: AdamW is used")
    if draft["weight_decay"]:
        draft.set("optimizer.decay_exempt", "norms_and_biases", "weight_decay")
    if draft["fp16"]:
        draft.differs("fp16")
    bfloat = draft["fp16"] or draft["bf16"] is not False
    draft.set("model.compute_dtype", "bfloat16" if bfloat else "float32", "fp16" if draft["fp16"] else "bf16")
    if bfloat and not draft.states("bf16", "fp16"):
        draft.note("TRL computes in bfloat16 by default; on a CPU model.compute_dtype=float32 is often faster")
    if draft.states("disable_dropout") and not draft["disable_dropout"]:
        draft.differs("disable_dropout")


def _sampling(draft: Draft) -> None:
    truncating = [key for key, off in (("top_p", 1.0), ("top_k", 0), ("min_p", None)) if draft[key] not in (off, 0)]
    if truncating:
        draft.set("sampling.replay_mask", True, truncating[0])
        draft.differs(truncating[0], "TRL scores the whole vocabulary; groupwise scores over the tokens that were kept")


def _files(draft: Draft, updates: int) -> None:
    data = draft["dataset_name"]
    if data and data.endswith((".jsonl", ".json", ".parquet")):
        draft.set("problems.train", data, "dataset_name")
    elif data:
        draft.absent("dataset_name", data=data)
    if draft.states("save_steps") and draft["save_steps"] >= 1:
        draft.set("run.checkpoint_every_steps", math.ceil(draft["save_steps"] / updates), "save_steps")
