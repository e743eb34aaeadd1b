"""The options of verl's PPO trainer (August 2026) that change the algorithm, and the sections that do not.

A row that names a whole section, such as `critic`, stands for every option below it that has no row of its own.
"""

from groupwise.importing.fields import Field, absent, copied, idle, translated

_FUNCTION = "a function of your own goes to rewards.functions; it is called in another way"
_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_CORRECTION = "algorithm.rollout_correction"
# Where versions of verl keep the soft overlong penalty.
OVERLONG = (
    "reward.reward_kwargs.overlong_buffer_cfg",
    "reward_model.reward_kwargs.overlong_buffer_cfg",
    "reward_model.overlong_buffer",
)
_NUMBER = (int, float)
_NULL = type(None)

FIELDS: tuple[Field, ...] = (
    # Batch
    copied("data.train_batch_size", 1024, "batch.prompts_per_step", "counted in prompts, as here"),
    copied(f"{_ROLLOUT}.n", 1, "batch.samples_per_prompt"),
    translated(
        f"{_ACTOR}.ppo_mini_batch_size",
        256,
        "batch.minibatches_per_step",
        "counted in prompts: train_batch_size / ppo_mini_batch_size",
    ),
    copied(f"{_ACTOR}.ppo_epochs", 1, "batch.epochs_per_step"),
    translated(
        "data.gen_batch_size",
        None,
        "active_sampling.max_prompts_per_step_factor",
        "prompts of one generation batch; with filter_groups only",
        (int,),
    ),
    translated("algorithm.filter_groups.enable", False, "active_sampling.filter, active_sampling.refill", "both"),
    translated(
        "algorithm.filter_groups.metric",
        None,
        "active_sampling.filter",
        "`acc` is `correctness`; `score`, `reward`, `seq_reward`, `seq_final_reward` are `total`",
        (str,),
    ),
    translated(
        "algorithm.filter_groups.max_num_gen_batches",
        0,
        "active_sampling.max_prompts_per_step_factor",
        "times gen_batch_size / train_batch_size; 0 has no limit, and verl's newer trainer reads none",
    ),
    absent("algorithm.filter_groups.filter_type", "same_value", "groups are left out for equal rewards only"),
    # Length of the run, and learning rate
    translated("trainer.total_training_steps", None, "run.steps", "rollouts, as here", (int,)),
    translated("trainer.total_epochs", 30, "run.steps", "with the number of problems (`--problems`)"),
    copied(f"{_ACTOR}.optim.lr", 1e-6, "optimizer.lr"),
    translated(
        f"{_ACTOR}.optim.lr_scheduler_type",
        "constant",
        "optimizer.schedule",
        "`constant`, `cosine`; `wsd` has no counterpart",
    ),
    translated(f"{_ACTOR}.optim.warmup_style", None, "optimizer.schedule", "old name of lr_scheduler_type", (str,)),
    translated(f"{_ACTOR}.optim.min_lr_ratio", 0.0, "optimizer.final_lr_fraction", "with `cosine`", (*_NUMBER, _NULL)),
    translated(f"{_ACTOR}.optim.lr_warmup_steps", -1, "optimizer.warmup_steps", "negative: by the share"),
    translated(f"{_ACTOR}.optim.lr_warmup_steps_ratio", 0.0, "optimizer.warmup_steps", "a share of the run"),
    copied(f"{_ACTOR}.optim.weight_decay", 0.01, "optimizer.weight_decay", "not 0, as elsewhere"),
    translated(f"{_ACTOR}.optim.betas", [0.9, 0.999], "optimizer.beta1, optimizer.beta2", "in this order", (list,)),
    translated(f"{_ACTOR}.optim.clip_grad", None, "optimizer.max_grad_norm", "1.0 where neither is set", _NUMBER),
    translated(f"{_ACTOR}.grad_clip", 1.0, "optimizer.max_grad_norm", "old place of clip_grad"),
    absent(f"{_ACTOR}.optim.optimizer", "AdamW", "AdamW only"),
    absent(f"{_ACTOR}.optim.num_cycles", 0.5, "the cosine falls once"),
    absent(f"{_ACTOR}.optim.override_optimizer_config", None, "AdamW has no further options"),
    translated(f"{_ACTOR}.fsdp_config.dtype", "bfloat16", "model.compute_dtype", "the arithmetic; float16: bfloat16"),
    # Sampling
    copied("data.max_response_length", 512, "sampling.max_new_tokens"),
    copied(f"{_ROLLOUT}.temperature", 1.0, "sampling.temperature"),
    translated(f"{_ROLLOUT}.top_p", 1, "sampling.top_p", "as it is", _NUMBER),
    translated(f"{_ROLLOUT}.top_k", -1, "sampling.top_k", "-1 is 0"),
    absent(f"{_ROLLOUT}.do_sample", True, "training samples; without sampling a group has no spread"),
    absent(f"{_ROLLOUT}.ignore_eos", False, "a completion ends at its stop token"),
    translated(f"{_ROLLOUT}.val_kwargs.n", 1, "problems.eval_samples_per_prompt", "where it is set"),
    absent(f"{_ROLLOUT}.val_kwargs.temperature", 0, "measured greedily and at the training temperature, both"),
    absent("data.max_prompt_length", 512, "prompts are never cut nor dropped for their length"),
    # Loss
    translated(
        f"{_ACTOR}.policy_loss.loss_mode",
        "vanilla",
        "objective.surrogate, objective.ratio",
        "see the second table",
    ),
    translated(
        f"{_ACTOR}.loss_agg_mode",
        "token-mean",
        "objective.reduction",
        "`token_mean`, `sequence_mean_token_sum`, `sequence_mean_token_mean`; `-norm` is `constant_length`",
    ),
    translated(
        f"{_ACTOR}.loss_scale_factor", None, "objective.constant_length_tokens", "null: the response length", (int,)
    ),
    translated(f"{_ACTOR}.clip_ratio", 0.2, "objective.clip_low", "read only where the next two are null"),
    translated(f"{_ACTOR}.clip_ratio_low", 0.2, "objective.clip_low", "as it is", (*_NUMBER, _NULL)),
    translated(f"{_ACTOR}.clip_ratio_high", 0.2, "objective.clip_high", "as it is", (*_NUMBER, _NULL)),
    translated(f"{_ACTOR}.clip_ratio_c", 3.0, "objective.dual_clip", "always on with `vanilla`", _NUMBER),
    translated(f"{_ACTOR}.tau_pos", 1.0, "objective.sapo_temperature_positive", "`sapo` only"),
    translated(f"{_ACTOR}.tau_neg", 1.05, "objective.sapo_temperature_negative", "`sapo` only"),
    translated(f"{_ACTOR}.policy_loss.clip_cov_ratio", 2e-4, "entropy.covariance_share", "`clip_cov` only"),
    translated(f"{_ACTOR}.policy_loss.clip_cov_lb", 1.0, "entropy.clip_cov_low", "`clip_cov` only"),
    translated(f"{_ACTOR}.policy_loss.clip_cov_ub", 5.0, "entropy.clip_cov_high", "`clip_cov` only"),
    translated(f"{_ACTOR}.policy_loss.kl_cov_ratio", 2e-4, "entropy.covariance_share", "`kl_cov` only"),
    translated(f"{_ACTOR}.policy_loss.ppo_kl_coef", 0.1, "entropy.kl_cov_coefficient", "`kl_cov` only"),
    translated(f"{_ACTOR}.entropy_coeff", 0, "entropy.coefficient", "weighted as the policy loss, as here", _NUMBER),
    # Advantages and rewards
    translated(
        "algorithm.adv_estimator",
        "gae",
        "advantage.estimator, advantage.baseline",
        "`grpo`, `rloo`, `gdpo`, `reinforce_plus_plus_baseline`; `gae` and others have no counterpart",
    ),
    translated("algorithm.norm_adv_by_std_in_grpo", True, "advantage.scale", "`group_std` (with 1e-6) or `none`"),
    absent("algorithm.gdpo_reward_keys", None, "every reward with a weight is normalised apart"),
    absent("algorithm.gdpo_reward_weights", None, "set the weight of each reward, rewards.format.weight and others"),
    absent("algorithm.gamma", 1.0, "no discount: a completion has one reward"),
    absent("algorithm.lam", 1.0, "no value function"),
    absent("algorithm.use_pf_ppo", False, "samples are not drawn again by their reward"),
    *(
        row
        for section in OVERLONG
        for row in (
            translated(f"{section}.enable", False, "rewards.overlong.buffer_tokens", "whether there is a penalty"),
            translated(f"{section}.len", None, "rewards.overlong.buffer_tokens", "as it is", (int,)),
            translated(f"{section}.penalty_factor", 1.0, "rewards.overlong.weight", "as it is"),
        )
    ),
    translated("reward_model.reward_kwargs.max_resp_len", None, "", "is sampling.max_new_tokens", (int,)),
    translated("reward.reward_kwargs.max_resp_len", None, "", "is sampling.max_new_tokens", (int,)),
    absent("reward_model.enable", False, "no reward models: answers are checked"),
    absent("reward.reward_model.enable", False, "no reward models: answers are checked"),
    absent("custom_reward_function.path", None, _FUNCTION),
    absent("reward.custom_reward_function.path", None, _FUNCTION),
    # Engine correction
    translated(f"{_CORRECTION}.bypass_mode", False, "objective.old_logps", "true is `sampler`, false `trainer`"),
    translated(
        f"{_CORRECTION}.rollout_is",
        None,
        "engine_correction.form, engine_correction.level",
        "`token`, or `sequence`, which is `sequence_product`",
        (str, bool),
    ),
    translated(
        f"{_CORRECTION}.rollout_is_threshold",
        2.0,
        "engine_correction.high, engine_correction.low",
        "a number truncates, `low_high` is a band",
        (*_NUMBER, str),
    ),
    translated(f"{_CORRECTION}.loss_type", "ppo_clip", "objective.surrogate", "`reinforce` with bypass_mode is CISPO"),
    absent(
        f"{_CORRECTION}.rollout_rs",
        None,
        "no rejection by a divergence; a band (`0.5_5.0`) of rollout_is is the nearest",
    ),
    absent(f"{_CORRECTION}.rollout_is_batch_normalize", False, "weights are not divided by their mean"),
    translated(f"{_ACTOR}.tis_imp_ratio_cap", -1, "engine_correction.high", "old name; positive is on", _NUMBER),
    # KL
    translated(f"{_ACTOR}.use_kl_loss", False, "kl.coefficient", "placement `loss`, importance `none`"),
    translated(f"{_ACTOR}.kl_loss_coef", 0.001, "kl.coefficient", "`use_kl_loss: true` only"),
    translated(
        f"{_ACTOR}.kl_loss_type",
        "low_var_kl",
        "kl.estimator",
        "`kl`/`k1`, `mse`/`k2`, `low_var_kl`/`k3`; `k1+` and `k3+` have the gradient of `k2`",
    ),
    translated("algorithm.use_kl_in_reward", False, "kl.placement", "`reward`, per token and after the group mean"),
    translated("algorithm.kl_ctrl.kl_coef", 0.001, "kl.coefficient", "`use_kl_in_reward: true` only"),
    translated("algorithm.kl_penalty", "kl", "", "in the reward the estimate is always k1, which is `kl`"),
    translated("algorithm.kl_ctrl.type", "fixed", "", "the coefficient is fixed"),
    # Files
    translated("data.train_files", None, "problems.train", "one file", (str, list)),
    translated("data.val_files", None, "problems.eval", "one or several", (str, list)),
    translated("data.prompt_key", "prompt", "problems.columns.problem", "where it is another"),
    absent("data.train_max_samples", -1, "all problems of the file are used"),
    absent("data.val_max_samples", -1, "set problems.eval_problems"),
    absent("data.filter_overlong_prompts", False, "prompts are never dropped for their length"),
    absent("data.truncation", "error", "prompts are never cut"),
    absent("data.apply_chat_template_kwargs", None, "the chat template is called without further arguments"),
    absent("data.shuffle", True, "problems are always drawn in a new order each time through"),
    translated("data.seed", None, "run.seed", "null leaves groupwise's 0", (int,)),
    translated("actor_rollout_ref.model.path", None, "model.path", "as it is", (str,)),
    translated(
        "actor_rollout_ref.model.enable_gradient_checkpointing",
        True,
        "batch.activation_checkpointing",
        "where a file states it; verl's default is on, and it changes memory alone",
    ),
    absent("actor_rollout_ref.model.lora_rank", 0, "all weights are trained, or all but the embeddings"),
    translated("trainer.save_freq", -1, "run.checkpoint_every_steps", "-1 is 0"),
    translated("trainer.test_freq", -1, "problems.eval_every_steps", "with data.val_files"),
    absent("trainer.critic_warmup", 0, "no value function"),
    absent(f"{_ROLLOUT}.multi_turn.enable", False, "one prompt, one completion"),
    absent(f"{_ROLLOUT}.over_sample_rate", 0, "no completion is given up for being slow"),
    absent(f"{_ROLLOUT}.enable_rollout_routing_replay", False, "experts of a mixture are not recorded"),
    absent("trainer.v1.trainer_mode", "sync", "a step trains on what the current weights sampled"),
    absent("distillation.enabled", False, "no teacher"),
    *idle(
        "actor_rollout_ref.hybrid_engine actor_rollout_ref.nccl_timeout actor_rollout_ref.model actor_rollout_ref.ref "
        "critic custom_reward_function defaults distillation global_profiler hydra ray_kwargs reward reward_model "
        "sandbox_fusion skip transfer_queue"
    ),
    *idle(
        "_target_ calculate_entropy calculate_sum_pi_squared checkpoint data_loader_seed entropy_checkpointing "
        "entropy_from_logits_chunk_size entropy_from_logits_with_chunking freeze_vision_tower fsdp_config megatron "
        "optim._target_ optim.optimizer_impl optim.total_training_steps optim.zero_indexed_step pad_to_length "
        "policy_loss._target_ ppo_max_token_len_per_gpu ppo_micro_batch_size ppo_micro_batch_size_per_gpu profiler qat "
        "rollout_n router_replay shuffle strategy ulysses_sequence_parallel_size use_dynamic_bsz use_fused_kernels "
        "use_prefix_grouper use_remove_padding use_torch_compile veomni",
        _ACTOR,
    ),
    *idle(
        "_target_ agent calculate_log_probs checkpoint_engine cudagraph_capture_sizes data_parallel_size "
        "disable_log_stats disaggregation dtype enable_chunked_prefill enable_prefix_caching enforce_eager "
        "engine_kwargs expert_parallel_size free_cache_engine full_determinism gpu_memory_utilization "
        "layered_summon load_format log_prob_max_token_len_per_gpu log_prob_micro_batch_size "
        "log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz logprobs_mode max_model_len "
        "max_num_batched_tokens max_num_seqs mode moe_load_balance_metrics_interval mtp multi_stage_wake_up "
        "multi_turn n_gpus_per_node name nnodes pipeline_model_parallel_size profiler prometheus prompt_length qat "
        "quantization quantization_config_file response_length scheduling_policy seed skip skip_tokenizer_init "
        "tensor_model_parallel_size trace update_weights_bucket_megabytes use_preprocessed_multimodal_input val_kwargs",
        _ROLLOUT,
    ),
    *idle(
        "_target_ filter_groups._target_ filter_groups.lower_bound filter_groups.max_inflight_gen_batches "
        "filter_groups.upper_bound kl_ctrl._target_ kl_ctrl.horizon kl_ctrl.target_kl pf_ppo "
        "rollout_correction.debug_rollout_actor_probs rollout_correction.rollout_rs_threshold",
        "algorithm",
    ),
    *idle(
        "audio_key custom_cls dataloader_num_workers filter_overlong_prompts_workers function_tool_path image_key "
        "image_patch_size mm_processor_kwargs return_full_prompt return_multi_modal_inputs return_raw_chat "
        "return_raw_input_ids reward_fn_key sampler tokenizer tool_config_path trust_remote_code use_shm "
        "val_batch_size validation_shuffle video_key",
        "data",
    ),
    *idle(
        "balance_batch balance_keep_minibatch checkpoint_callback_class default_hdfs_dir default_local_dir "
        "del_local_ckpt_after_load device esi_redundant_time experiment_name log_val_generations logger "
        "max_actor_ckpt_to_keep max_critic_ckpt_to_keep n_gpus_per_node nnodes project_name "
        "ray_wait_register_center_timeout resume_from_path resume_mode rollout_data_dir use_v1 v1 val_before_train "
        "val_only validation_data_dir",
        "trainer",
    ),
)
