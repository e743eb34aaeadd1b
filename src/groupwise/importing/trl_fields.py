"""The options of TRL's GRPOConfig (1.16), and those of its command line that stand in the same files."""

from groupwise.importing.fields import Field, absent, copied, idle, translated

_COMPLETIONS = "counted in completions of one process; together they give the prompts of a step and its minibatches"
_REWARDS = "rewards.correctness.weight, rewards.format.weight, rewards.overlong.weight"
_SAPO = "`loss_type: sapo` only"
_VESPO = "`loss_type: vespo` only"
_ENGINE = "`use_vllm: true` only, as TRL corrects for no other engine"

FIELDS: tuple[Field, ...] = (
    # Batch
    copied("num_generations", 8, "batch.samples_per_prompt"),
    translated("per_device_train_batch_size", 8, "batch.prompts_per_step", _COMPLETIONS),
    translated("gradient_accumulation_steps", 1, "batch.prompts_per_step, batch.minibatches_per_step", _COMPLETIONS),
    translated(
        "steps_per_generation", None, "batch.prompts_per_step, batch.minibatches_per_step", _COMPLETIONS, (int,)
    ),
    translated("generation_batch_size", None, "batch.prompts_per_step", f"over all processes; {_COMPLETIONS}", (int,)),
    copied("num_iterations", 1, "batch.epochs_per_step"),
    # Length of the run, and learning rate
    translated("max_steps", -1, "run.steps", "counts optimizer steps; `run.steps` counts rollouts"),
    translated("num_train_epochs", 3.0, "run.steps", "with the number of problems (`--problems`)"),
    copied("learning_rate", 1e-6, "optimizer.lr"),
    translated(
        "lr_scheduler_type",
        "linear",
        "optimizer.schedule",
        "`linear`, `cosine`, `constant`, `constant_with_warmup`, `cosine_with_min_lr`; others have no counterpart",
    ),
    translated("lr_scheduler_kwargs", None, "optimizer.final_lr_fraction", "`min_lr` and `min_lr_rate`", (dict,)),
    translated("warmup_steps", 0, "optimizer.warmup_steps", "optimizer steps, or below 1 a share", (int, float)),
    translated("warmup_ratio", None, "optimizer.warmup_steps", "a share of the run", (int, float)),
    copied("weight_decay", 0.0, "optimizer.weight_decay"),
    copied("adam_beta1", 0.9, "optimizer.beta1"),
    copied("adam_beta2", 0.999, "optimizer.beta2"),
    copied("adam_epsilon", 1e-8, "optimizer.epsilon"),
    copied("max_grad_norm", 1.0, "optimizer.max_grad_norm"),
    translated("optim", "adamw_torch_fused", "", "AdamW in any build is AdamW; others have no counterpart"),
    translated("bf16", None, "model.compute_dtype", "on by default, as autocast", (bool,)),
    translated("fp16", False, "model.compute_dtype", "float16 has no counterpart: bfloat16 instead"),
    translated(
        "gradient_checkpointing",
        True,
        "batch.activation_checkpointing",
        "where a file states it; TRL's default is on, and it changes memory alone",
    ),
    copied("seed", 42, "run.seed"),
    # Sampling
    copied("max_completion_length", 512, "sampling.max_new_tokens"),
    copied("temperature", 1.0, "sampling.temperature"),
    copied("top_p", 1.0, "sampling.top_p"),
    copied("top_k", 0, "sampling.top_k"),
    translated("min_p", None, "sampling.min_p", "null is 0", (int, float)),
    translated("num_generations_eval", None, "problems.eval_samples_per_prompt", "null leaves groupwise's 8", (int,)),
    # Loss
    translated(
        "loss_type",
        "dapo",
        "objective.surrogate, objective.reduction",
        "one name for both: see the second table",
    ),
    translated("importance_sampling_level", "token", "objective.ratio", "`sequence` is `sequence_geometric_mean`"),
    translated("epsilon", 0.2, "objective.clip_low", "also the upper bound where `epsilon_high` is null"),
    translated(
        "epsilon_high",
        None,
        "objective.clip_high, objective.cispo_cap",
        "a distance from 1; with `loss_type: cispo` the absolute cap of the weight",
        (int, float),
    ),
    translated(
        "delta",
        None,
        "objective.dual_clip, objective.clip_high",
        "`dual_clip` where delta ≥ 1 + epsilon_high; below, `clip_high` = delta - 1 and `dual_clip` = 1 + epsilon_high",
        (int, float),
    ),
    translated("sapo_temperature_pos", 1.0, "objective.sapo_temperature_positive", _SAPO),
    translated("sapo_temperature_neg", 1.05, "objective.sapo_temperature_negative", _SAPO),
    translated("vespo_k_pos", 2.0, "objective.vespo_k_positive", _VESPO),
    translated("vespo_lambda_pos", 3.0, "objective.vespo_lambda_positive", _VESPO),
    translated("vespo_k_neg", 3.0, "objective.vespo_k_negative", _VESPO),
    translated("vespo_lambda_neg", 2.0, "objective.vespo_lambda_negative", _VESPO),
    translated(
        "mask_truncated_completions",
        False,
        "objective.truncated",
        "`mask`; sequence means of TRL still count the sequence in their denominator",
    ),
    # Advantages and rewards
    translated("scale_rewards", "group", "advantage.scale", "`group`/true, `batch`, `none`/false", (str, bool)),
    translated(
        "multi_objective_aggregation", "sum_then_normalize", "advantage.estimator", "`normalize_then_sum` is `gdpo`"
    ),
    translated("reward_funcs", None, _REWARDS, "by name", (list,)),
    translated("reward_weights", None, _REWARDS, "by position", (list,)),
    absent("reward_model_name_or_path", None, "no reward models: answers are checked"),
    # Engine correction
    translated("use_vllm", False, "engine_correction.form", "decides whether TRL corrects at all"),
    translated("vllm_importance_sampling_correction", True, "engine_correction.form", _ENGINE),
    translated(
        "vllm_importance_sampling_mode",
        "sequence_mask",
        "engine_correction.form, engine_correction.level",
        f"`truncate` or `band`, `token` or `sequence_product`; {_ENGINE}",
    ),
    translated("vllm_importance_sampling_clip_max", 3.0, "engine_correction.high", _ENGINE, (int, float, type(None))),
    translated("vllm_importance_sampling_clip_min", None, "engine_correction.low", _ENGINE, (int, float)),
    translated("vllm_importance_sampling_cap", None, "engine_correction.high", "old name of clip_max", (int, float)),
    translated(
        "off_policy_mask_threshold",
        None,
        "off_policy_mask.threshold_nats, off_policy_mask.against",
        "against `sampler` with vLLM, `old` without",
        (int, float),
    ),
    # KL
    translated("beta", 0.0, "kl.coefficient", "estimator `k3`, in the loss"),
    translated("use_bias_correction_kl", True, "kl.importance", "`token` or `none`"),
    translated("sync_ref_model", False, "kl.refresh_reference_every_steps", "replaces the reference, no mixing"),
    translated("ref_model_sync_steps", 512, "kl.refresh_reference_every_steps", "optimizer steps"),
    translated("ref_model_mixup_alpha", 0.6, "", "the reference is replaced whole, which is alpha 1"),
    # Entropy
    translated("top_entropy_quantile", 1.0, "entropy.train_top_share", "of the optimizer step, not the micro-batch"),
    translated("entropy_coef", 0.0, "entropy.coefficient", "weighted as the policy loss, not as a token mean"),
    translated("use_adaptive_entropy", False, "entropy.target_nats", "the rule of Skywork OR1"),
    translated("entropy_target", 0.2, "entropy.target_nats", "`use_adaptive_entropy: true` only"),
    translated("entropy_coef_delta", 0.005, "entropy.coefficient_step", "`use_adaptive_entropy: true` only"),
    translated("entropy_coef_max", 1.0, "entropy.max_coefficient", "`use_adaptive_entropy: true` only"),
    absent("entropy_coef_min", 0.0, "the coefficient of the entropy bonus may always fall to 0"),
    # Files
    translated("model_name_or_path", None, "model.path", "as it is", (str,)),
    translated("dataset_name", None, "problems.train", "a .jsonl, .json or .parquet file", (str,)),
    translated("output_dir", None, "run.output", "as it is", (str,)),
    translated("save_steps", 500, "run.checkpoint_every_steps", "where it is set; optimizer steps", (int, float)),
    translated("save_total_limit", None, "run.keep_checkpoints", "where it is set", (int,)),
    absent("eval_strategy", "no", "name problems in problems.eval, then set problems.eval_every_steps"),
    # Without a counterpart
    absent("repetition_penalty", 1.0, "changes the distribution that is sampled from; no scorer could replay it"),
    absent("generation_kwargs", None, "sampling is set by sampling.* alone, so that every scorer can follow it"),
    absent("chat_template_kwargs", None, "the chat template is called without further arguments"),
    absent("vllm_structured_outputs_regex", None, "constrained decoding: no scorer could replay it"),
    absent("max_tool_calling_iterations", None, "no tools: one prompt, one completion"),
    translated("disable_dropout", False, "", "TRL leaves dropout on unless this is true; groupwise never has any"),
    absent("router_aux_loss_coef", None, "no balancing loss for mixtures of experts"),
    absent("cast_lm_head_to_fp32", False, "the head is computed in model.compute_dtype, the softmax in float32"),
    absent("shuffle_dataset", True, "problems are always drawn in a new order each time through"),
    absent("max_prompt_length", None, "prompts are never cut (TRL removed this in 0.28)"),
    absent("model_init_kwargs", None, "a model is loaded as its folder says"),
    absent("model_revision", "main", "name a folder with the revision in model.path"),
    absent("trust_remote_code", False, "code from a model folder is never run"),
    absent("dtype", "float32", "weights are float32; model.compute_dtype is the arithmetic"),
    absent("use_peft", False, "all weights are trained, or all but the embeddings (model.trainable)"),
    absent("load_in_8bit", False, "weights are not quantised"),
    absent("load_in_4bit", False, "weights are not quantised"),
    absent("dataset_config", None, "problems come from a file: name it in problems.train"),
    absent("dataset_train_split", "train", "problems come from a file: name it in problems.train"),
    absent("dataset_test_split", "test", "problems come from a file: name it in problems.eval"),
    absent("datasets", None, "problems come from one file: name it in problems.train"),
    absent("label_smoothing_factor", 0.0, "TRL's loss does not read it either"),
    absent("neftune_noise_alpha", None, "no noise on embeddings"),
    absent("optim_args", None, "AdamW has no further options"),
    absent("optim_target_modules", None, "one learning rate for all weights"),
    *idle(
        "accelerator_config attn_implementation auto_find_batch_size average_tokens_across_devices "
        "batch_eval_metrics bf16_full_eval bnb_4bit_quant_storage bnb_4bit_quant_type cache_implementation "
        "data_seed dataloader_drop_last dataloader_in_order dataloader_multiprocessing_context "
        "dataloader_num_workers dataloader_persistent_workers dataloader_pin_memory dataloader_prefetch_factor "
        "dataset_streaming ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters "
        "ddp_static_graph ddp_timeout debug deepspeed disable_tqdm do_eval do_predict do_train "
        "ds3_gather_for_generation enable_jit_checkpoint eval_accumulation_steps eval_delay "
        "eval_do_concat_batches eval_on_start eval_steps eval_use_gather_object fp16_full_eval fsdp fsdp_config "
        "full_determinism gradient_checkpointing_kwargs greater_is_better hub_always_push "
        "hub_model_id hub_private_repo hub_revision hub_strategy hub_token ignore_bias_buffers ignore_data_skip "
        "include_for_metrics include_num_input_tokens_seen label_names length_column_name liger_kernel_config "
        "load_best_model_at_end local_rank log_completions log_completions_hub_repo log_level log_level_replica "
        "log_multimodal log_on_each_node log_unique_prompts logging_first_step logging_nan_inf_filter "
        "logging_steps logging_strategy lora_alpha lora_dropout lora_modules_to_save lora_r lora_target_modules "
        "lora_target_parameters lora_task_type metric_for_best_model num_completions_to_print pad_to_multiple_of "
        "parallelism_config per_device_eval_batch_size prediction_loss_only project push_to_hub "
        "remove_unused_columns report_to restore_callback_states_from_checkpoint resume_from_checkpoint run_name "
        "save_on_each_node save_only_model save_strategy skip_memory_metrics tf32 torch_compile "
        "torch_compile_backend torch_compile_mode torch_empty_cache_steps trackio_bucket_id trackio_space_id "
        "trackio_static_space_id train_sampling_strategy transformers_continuous_batching_config "
        "use_bnb_nested_quant use_cache use_cpu use_dora use_liger_kernel use_liger_loss use_rslora "
        "use_transformers_continuous_batching use_transformers_paged vllm_enable_sleep_mode "
        "vllm_gpu_memory_utilization vllm_group_port vllm_max_model_length vllm_mode vllm_model_impl "
        "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_tensor_parallel_size"
    ),
)
