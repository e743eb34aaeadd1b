"""What went wrong in use, as kinds, and the tests that hold each kind.

N: training continues although it is broken. S: stopping and resuming. M: the mathematics at its edges.
"""

from dataclasses import dataclass

GUARDS, RESUME, SOUND = (f"tests/training/test_{name}.py::test_" for name in ("guards", "resume", "sound_checkpoints"))
KILL, STOP = "tests/training/test_any_kill.py::test_", "tests/training/test_stopping.py::test_"
COMMANDS, COLLECT = "tests/cli/test_stopped_commands.py::test_", "tests/training/test_collect.py::test_"
CHECKS, UPDATE = "tests/config/test_config_checks.py::test_", "tests/training/test_update.py::test_"
TRL, VERL = "tests/importing/test_importing_trl.py::test_", "tests/importing/test_importing_verl.py::test_"
ESTIMATE, ORDER = "tests/evaluation/test_estimate.py::test_", "tests/grading/test_tag_order.py::test_"


@dataclass(frozen=True)
class Item:
    """name: by which the kind is known. was: what happened. tests: what would notice it today."""

    name: str
    was: str
    tests: tuple[str, ...]


ITEMS = (
    Item(
        "N1",
        "a learning rate that destroys the weights trains on to the end, exit code 0",
        (
            GUARDS + "n1_a_rate_that_makes_weights_infinite_stops_in_its_step",
            GUARDS + "n1_a_rate_that_destroys_the_model_is_said_and_stops",
            GUARDS + "weights_that_are_not_finite_never_enter_a_checkpoint",
            GUARDS + "skipped_updates_are_said_and_stop_the_run_after_several_in_a_row",
        ),
    ),
    Item(
        "N2",
        "engine and trainer disagree on long sequences, and the check at the start uses short ones",
        (
            "tests/model/test_startup_check.py::test_n2_long_and_short_sequences_in_one_pack_are_told_apart",
            "tests/rollout/test_engine_check.py::test_n2_angles_that_switch_are_found_by_the_engine_too",
            GUARDS + "an_engine_that_disagrees_in_float32_stops_the_run",
            GUARDS + "in_bfloat16_the_gap_of_the_start_is_the_measure",
        ),
    ),
    Item(
        "N3",
        "a reward that raises for most answers is passed over in silence",
        (GUARDS + "n3_a_reward_that_fails_for_most_answers_is_said_and_stops", GUARDS + "n3_by_the_command"),
    ),
    Item(
        "N4",
        "a reward function reads a column that is not there, and is constant",
        (
            GUARDS + "n4_a_column_that_is_not_there_is_said_before_training",
            GUARDS + "n4_a_constant_reward_stops_where_that_is_asked_for",
        ),
    ),
    Item(
        "N5",
        "a model with NaN weights is blamed on its architecture",
        (
            GUARDS + "n5_a_damaged_model_is_named_as_such",
            "tests/model/test_startup_check.py::test_n5_weights_that_are_not_finite_are_named",
        ),
    ),
    Item(
        "N6",
        "steps without signal log no entropy, just when a model is destroyed",
        (GUARDS + "n6_what_was_sampled_is_measured_without_signal_too",),
    ),
    Item(
        "S1",
        "a signal says nothing, waits for a whole pass, loses steps, or leaves the terminal without its cursor",
        (
            STOP + "a_signal_in_any_phase",
            STOP + "a_second_signal_saves_nothing",
            STOP + "an_error_in_any_phase",
            STOP + "a_full_disk",
            COMMANDS + "a_signal_ends_a_run",
            COMMANDS + "a_closed_output",
            COMMANDS + "the_terminal_is_as_before",
        ),
    ),
    Item(
        "S2",
        "a kill in the first moments of a run leaves what neither command takes",
        (
            RESUME + "s2_the_same_command_starts_continues_and_ends",
            RESUME + "s2_folders_that_never_appeared_are_swept",
            KILL + "some_operations",
        ),
    ),
    Item(
        "S3",
        "two processes train in one folder",
        (
            RESUME + "s3_a_second_process_is_refused_before_it_loads_anything",
            RESUME + "s3_the_lock_of_a_process_that_is_gone_is_taken_over",
        ),
    ),
    Item(
        "S4",
        "lost manifests mean: start again, and overwrite",
        (RESUME + "s4_manifests_that_are_missing_are_damage", RESUME + "s4_checkpoints_that_are_gone"),
    ),
    Item(
        "S5",
        "pruning keeps a damaged checkpoint and removes the sound ones",
        (SOUND + "s5_damaged_checkpoints_do_not_count", SOUND + "s5_the_last_sound_one_stays"),
    ),
    Item(
        "S6",
        "a damaged byte makes a run unusable, or is dropped in silence",
        (
            RESUME + "s6_bytes_behind_the_checkpoint_are_cut",
            RESUME + "s6_damage_before_the_checkpoint_is_named_and_kept",
            RESUME + "s6_a_stream_that_is_missing_is_named",
        ),
    ),
    Item(
        "S7",
        "a run is resumed with other options, problems or rewards in silence",
        (RESUME + "s7_what_changed_is_refused_unless_it_is_named", RESUME + "s7_all_differences_are_listed_at_once"),
    ),
    Item(
        "S8",
        "a resumed run does not say where it begins, and works from one directory alone",
        (
            RESUME + "s8_it_says_from_which_step",
            RESUME + "s8_relative_paths_are_from_where_it_was_started",
        ),
    ),
    Item(
        "S9",
        "a memory limit, a read-only folder or a screen without UTF-8 end in a stack trace",
        (
            RESUME + "s9_a_place_that_cannot_be_written_is_told_before_the_model_is_loaded",
            RESUME + "s9_a_run_that_cannot_be_written_is_one_message",
            "tests/memory/test_memory.py::test_a_limit_of_this_process_is_seen",
            STOP + "smaller_micro_batches_where_memory_runs_out",
            COMMANDS + "an_output_that_takes_no_utf_8",
        ),
    ),
    Item("S10", "files are renamed or counted on before they are synced", (KILL + "s10_what_is_renamed_was_synced",)),
    Item(
        "M1",
        "pass@k with k = G: every advantage is 0, and no finding",
        (
            COLLECT + "an_estimator_whose_advantages_are_always_0_is_refused",
            COLLECT + "a_group_that_fills_no_draw_of_wrong_answers_is_no_signal_to_pass_at_k",
            COLLECT + "a_group_that_is_admitted_has_an_advantage",
        ),
    ),
    Item(
        "M2",
        "the filter looks at rewards that a condition withholds",
        (COLLECT + "a_reward_that_is_not_granted_is_no_signal", COLLECT + "what_is_not_granted_has_no_advantage"),
    ),
    Item(
        "M3",
        "the reported KL counts domains that have no coefficient",
        ("tests/training/test_update_terms.py::test_the_divergence_is_that_of_the_domains_that_have_a_coefficient",),
    ),
    Item(
        "M4",
        "bounds that cannot act with one update a step, and a cap that is no distance from 1, without a finding",
        (
            UPDATE + "bounds_act_exactly_where_it_is_not_said_that_they_cannot",
            CHECKS + "bounds_that_wait_for_a_second_update",
            CHECKS + "a_recipe_with_one_update_says_that_its_bounds_do_nothing",
            CHECKS + "warnings",
        ),
    ),
    Item(
        "M5",
        "a falling schedule ends at 0, so that the last answers train nothing",
        (
            UPDATE + "a_fall_to_0_is_that_of_transformers_and_every_step_trains",
            TRL + "trl_learning_rates_are_those_of_transformers",
        ),
    ),
    Item(
        "M6",
        "DAPO's rewards of ±1 are imported as 1, and its penalty counts double",
        (
            VERL + "verl_rewards_of_1_and_minus_1_are_as_far_apart_as_0_and_the_weight",
            VERL + "verl_script_of_dapo_rewards_as_the_recipe",
        ),
    ),
    Item(
        "M7",
        "norms and biases are decayed though the imported trainer spares them, and bonuses of micro-batches differ",
        (
            TRL + "trl_weight_decay_spares_what_transformers_spares",
            "tests/training/test_optimizer.py::test_norms_and_biases_are_exempt_as_in_transformers",
            TRL + "trl_entropy_is_a_mean_of_micro_batches",
        ),
    ),
    Item(
        "M8",
        "intervals of few problems are too narrow, and measurements ignore how training samples",
        (
            ESTIMATE + "the_interval_holds_the_true_value",
            ESTIMATE + "a_few_equal_shares_are_no_proof_that_problems_are_alike",
            "tests/evaluation/test_measure.py::test_answers_are_sampled_from_the_tokens_that_training_samples_from",
        ),
    ),
    Item(
        "M9",
        "the page of metrics says what a metric is not",
        (
            COLLECT + "surplus_groups_are_dropped_and_the_next_step_begins_behind_them",
            "tests/track/test_metrics.py::test_bounds_that_leave_the_gradient_are_named",
        ),
    ),
    Item(
        "M10",
        "a claim about one change rests on runs that differ in two",
        ("tests/battery/test_battery.py::test_m10_a_claim_about_the_kl_changes_one_thing",),
    ),
    Item(
        "M11",
        "the format reward of the tutorial has no built-in form, and its warnings are never raised",
        (
            ORDER + "golden",
            ORDER + "it_is_the_comparison_that_the_seed_prints",
            GUARDS + "steps_without_an_update_are_said_and_stop_the_run",
        ),
    ),
    Item(
        "M12",
        "GMPO is the paper's under one reduction alone, and nothing says so",
        (
            "tests/objective/test_gmpo.py::test_under_the_token_mean_long_answers_weigh_more",
            CHECKS + "warnings",
        ),
    ),
)
