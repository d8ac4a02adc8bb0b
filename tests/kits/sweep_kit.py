"""Long lists of parameters of which `make test` takes a part, and `make sweep` all the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings


def sampled(parameters: Iterable[Any], every: int = 3) -> list[Any]:
    """The parameters of a test, all but the first one, the one `every` places on and so forth with the mark `sweep`.

    A tuple has a value for each argument. Lists are in the order of their subject, so that each part of it is tried.
    """
    return [
        parameter
        if place % every == 0
        else pytest.param(*(parameter if isinstance(parameter, tuple) else (parameter,)), marks=pytest.mark.sweep)
        for place, parameter in enumerate(parameters)
    ]


EVERY = 5
PARTS = {
    "families/rowwise/test_scans.py": (
        "test_a_wrong_scan_is_seen",
        "test_scans_are_right_however_a_row_is_shared",
    ),
    "families/rowwise/test_selections.py": (
        "test_a_wrong_selection_is_seen",
        "test_selections_are_right_however_a_row_is_shared",
    ),
    "families/gemm/wgmma/test_scales.py": ("test_mistakes_fail", "test_right"),
    "analysis/test_addresses.py": (
        "test_accesses_are_those_of_the_ptx",
        "test_accesses_of_other_schedules_are_those_of_the_ptx",
    ),
    "analysis/test_explain.py": (
        "test_json_has_the_whole_proof",
        "test_the_proof_is_in_comments_of_a_spec_that_builds_the_same",
    ),
    "emulator/native/test_barriers_of_the_core.py": ("test_lanes_meet_where_they_do_in_numpy",),
    "emulator/native/test_mbarriers_of_the_core.py": ("test_lanes_arrive_and_find_phases_ended_as_in_numpy",),
    "parts/test_wrong_runs.py": ("test_what_one_order_proves_holds_in_all",),
    "verbs/building/test_failures.py": ("test_a_failure_is_said_at_the_key_of_its_line",),
    "cases/test_cost.py": (
        "test_a_tensor_that_a_call_may_copy_may_stand_anywhere",
        "test_where_all_sizes_are_fixed_the_kernel_with_the_least_estimate_is_the_only_one",
        "test_where_nothing_is_written_kernels_are_compared_for_sizes_that_wide_accesses_fit",
    ),
    "cases/test_forms.py": (
        "test_a_kernel_whose_operands_have_either_part_has_the_ptx_of_each_but_for_their_order",
        "test_the_ptx_of_each_case_is_that_of_the_case_as_a_spec_of_its_own",
    ),
    "cases/test_kernels.py": ("test_a_mistake_in_the_choice_is_found",),
    "cases/test_launched.py": ("test_each_call_launches_the_kernel_that_it_is_for_of_those_that_it_compiled",),
    "choosing/test_any_size.py": ("test_any_size_is_taken_at_any_address",),
    "choosing/test_atoms.py": ("test_the_fastest_atom_of_the_types_is_taken_on_each_target",),
    "choosing/test_compared.py": (
        "test_aligned_calls_get_the_compared_schedules_too",
        "test_each_size_of_a_batch_has_the_schedule_that_is_the_best_of_all",
        "test_no_tile_is_larger_than_a_fixed_size_needs",
    ),
    "cli/test_bad_input.py": (
        "test_a_closed_pipe_is_no_error_message",
        "test_a_full_disk_under_stdout_is_said",
        "test_bad_input_gets_a_diagnostic_with_its_place",
    ),
    "cli/test_verbs.py": ("test_explain_builds_to_the_same_bytes",),
    "codegen/test_caches.py": ("test_priorities_of_the_first_cache",),
    "codegen/test_clashes.py": ("test_a_name_of_the_module_is_refused_with_one_that_works",),
    "codegen/test_comments.py": (
        "test_elementwise_fragments",
        "test_gemm_comments",
    ),
    "codegen/test_expressions.py": (
        "test_floats",
        "test_nan_passes_through",
    ),
    "codegen/test_main.py": ("test_one_wrong_element_fails",),
    "codegen/test_nested_references.py": ("test_a_function_of_a_sum_in_a_product_is_that_of_the_sum",),
    "codegen/test_regions.py": ("test_every_line_of_a_kernel_comes_from_a_key",),
    "compiling/test_artefacts.py": ("test_spills_agree_with_ptxas",),
    "compiling/test_unassembled.py": ("test_the_ptx_is_that_of_a_whole_compilation",),
    "differentiation/test_backwards.py": ("test_a_spec_of_ours",),
    "documentation/test_reference.py": ("test_an_example_builds_and_makes_a_difference",),
    "drawing/test_kernels.py": ("test_every_kernel_has_pictures_that_all_renderers_draw",),
    "drawing/test_pages.py": (
        "test_a_page_asks_nobody_for_anything",
        "test_a_picture_marks_the_lines_that_its_regions_hold",
        "test_every_link_leads_somewhere",
        "test_the_code_on_a_page_is_the_module",
    ),
    "emulator/arithmetic/test_fma.py": ("test_fma_next_to_midpoints",),
    "emulator/host/test_mutants.py": (
        "test_harmless_change_is_not_reported",
        "test_mutant_is_caught",
    ),
    "emulator/host/test_targets.py": (
        "test_a_right_kernel_passes_for_all_its_targets",
        "test_products_that_ada_sums_otherwise_are_code_of_its_own",
    ),
    "emulator/host/test_walks.py": ("test_elementwise",),
    "emulator/instructions/test_conversions.py": (
        "test_between_floats",
        "test_between_integers",
        "test_floats_to_integers",
        "test_integers_to_floats",
    ),
    "emulator/instructions/test_floats.py": ("test_arithmetic_in_every_rounding",),
    "emulator/instructions/test_integers.py": ("test_two_operands",),
    "emulator/machine/test_rounds.py": ("test_rounds_that_are_not_alike_are_not_cut",),
    "emulator/operations/test_alike.py": ("test_any_instructions_do_what_they_do_alone",),
    "emulator/operations/test_multiply_adds.py": ("test_many_at_once_are_as_one_at_a_time",),
    "emulator/synchronisation/test_cluster_softmax.py": (
        "test_mutants",
        "test_rows_shared_by_the_blocks_of_a_cluster",
    ),
    "emulator/synchronisation/test_copies_together.py": ("test_at_once_is_as_in_turn",),
    "emulator/synchronisation/test_compiled_kernels.py": ("test_mutants_of_it",),
    "emulator/warps/test_core_products.py": ("test_what_nothing_has_written_is_as_lost",),
    "emulator/warps/test_compiled_gemms.py": ("test_products_of_small_integers_are_exact",),
    "emulator/warps/test_warpgroup_products.py": (
        "test_a_mistake_is_seen",
        "test_right_to_the_bit",
    ),
    "expressions/test_widths.py": ("test_a_kernel_computes_what_the_rule_says",),
    "families/common/test_ones.py": ("test_rowwise",),
    "families/common/test_walks.py": ("test_blocks_have_the_tiles_that_the_code_gives_them",),
    "families/elementwise/test_casts.py": ("test_out_of_range_is_the_nearest_number_and_nan_is_0",),
    "families/elementwise/test_every_function.py": ("test_every_function",),
    "families/elementwise/test_integers.py": ("test_statements_by_chance",),
    "families/elementwise/test_statements.py": (
        "test_a_local_value_and_two_outputs",
        "test_coordinates",
        "test_local_values",
        "test_outputs_of_several_types_and_majornesses",
        "test_what_is_read_written_and_used_again",
    ),
    "families/gemm/fma/test_advice.py": ("test_what_is_inferred_needs_no_advice",),
    "families/gemm/fma/test_batch.py": (
        "test_a_mistake_is_seen",
        "test_right",
    ),
    "families/gemm/fma/test_coordinates.py": ("test_a_causal_mask",),
    "families/gemm/fma/test_copy_layouts.py": ("test_every_tile_that_is_suggested_works",),
    "families/gemm/fma/test_idle_stages.py": ("test_there_is_a_tile_for_every_stage_or_advice",),
    "families/gemm/mma_sync/test_mma_sync_runs.py": ("test_right",),
    "families/gemm/fma/test_pictures.py": ("test_stages_are_filled_and_used_as_the_mainloop_does",),
    "families/gemm/fma/test_synchronisation.py": ("test_what_is_printed_is_right_in_every_order",),
    "families/gemm/wgmma/test_batch.py": (
        "test_a_mistake_is_seen",
        "test_right",
    ),
    "families/gemm/wgmma/test_boxes.py": ("test_a_mistake_in_what_lies_inside_is_refused",),
    "families/gemm/wgmma/test_fixed.py": ("test_what_lies_beyond_a_fixed_size_is_left_out",),
    "families/gemm/wgmma/test_multiprocessors.py": (
        "test_a_grid_has_as_many_blocks_as_run_at_once_and_results_are_the_same_bits",
    ),
    "families/gemm/wgmma/test_outputs.py": (
        "test_a_mistake_is_seen",
        "test_right",
    ),
    "families/gemm/wgmma/test_products.py": (
        "test_a_mistake_is_seen",
        "test_right",
    ),
    "families/gemm/wgmma/test_ptx_mistakes.py": ("test_a_mistake_is_seen",),
    "families/gemm/wgmma/test_runs.py": (
        "test_a_mistake_is_seen",
        "test_a_mistake_with_operands_of_8_bits_is_seen",
        "test_outputs_of_16_bits_go_to_shared_memory_by_stmatrix",
        "test_right",
        "test_right_of_8_bits",
        "test_what_is_the_same_along_columns_is_loaded_once",
    ),
    "families/gemm/wgmma/test_shared_memory.py": ("test_threads_write_where_the_access_says",),
    "families/gemm/wgmma/test_sources.py": (
        "test_a_mistake_is_seen",
        "test_right",
    ),
    "families/gemm/wgmma/test_split.py": (
        "test_a_mistake_is_seen",
        "test_buffers_of_the_output_lie_where_sums_were",
        "test_of_few_stages_one_is_loaded_again_as_soon_as_it_has_been_multiplied",
        "test_right",
    ),
    "families/gemm/wgmma/test_synchronisation.py": ("test_what_is_printed_is_right_in_every_order",),
    "families/gemm/wgmma/test_turns.py": (
        "test_a_mistake_is_seen",
        "test_right",
        "test_right_of_a_batch",
    ),
    "families/gemm/wgmma/test_row_copies.py": (
        "test_a_mistake_with_matrices_is_seen",
        "test_tensors_of_every_form_are_copied",
    ),
    "families/gemm/wgmma/test_workspaces.py": (
        "test_a_mistake_in_long_rows_is_seen",
        "test_a_mistake_is_seen",
    ),
    "families/rowwise/test_fewer_values.py": ("test_cases_tell_which_rows_have_fewer_values",),
    "families/rowwise/test_inout.py": (
        "test_a_new_value_that_may_come_before_an_old_one_is_read_is_found",
        "test_old_values_are_read_before_new_ones_are_written",
    ),
    "families/rowwise/test_kept.py": (
        "test_a_mistake_is_found",
        "test_rows_in_shared_memory_are_right",
    ),
    "families/rowwise/test_kept_ahead.py": ("test_a_mistake_is_found",),
    "families/rowwise/test_kept_bounded.py": (
        "test_a_mistake_is_found",
        "test_rows_up_to_a_bound_are_right",
    ),
    "families/rowwise/test_narrow_values.py": ("test_a_launch_with_too_few_threads_for_narrow_accesses_is_found",),
    "families/rowwise/test_reductions.py": ("test_reductions_are_right_however_a_row_is_shared",),
    "families/rowwise/test_row_values.py": ("test_a_row_is_filled_with_its_value",),
    "families/rowwise/test_several_modes.py": (
        "test_a_layer_norm_over_three_modes_is_torchs",
        "test_a_row_of_two_modes_is_right_however_it_is_shared",
        "test_elements_of_other_places_are_found",
    ),
    "families/rowwise/test_words.py": ("test_wrong_bounds_are_seen",),
    "families/rowwise/test_verify.py": (
        "test_a_plausible_mistake_is_found",
        "test_rows_of_several_warps_pieces_types_and_modes_are_right",
    ),
    "generated/test_fields.py": ("test_perturbation",),
    "generated/test_inner_outer_runs.py": (
        "test_every_size_is_covered_once",
        "test_threads_make_the_accesses_that_bits_asks_for",
    ),
    "generated/test_kinds.py": (
        "test_a_bool_is_0_or_1",
        "test_a_column_of_shared_memory_may_have_any_order",
        "test_an_operand_goes_through_a_workspace",
        "test_columns_of_shared_memory_that_start_anywhere",
        "test_floats_of_8_bits_that_come_a_few_at_a_time",
        "test_operands_are_stored_before_any_step",
        "test_products_of_fixed_depth_are_right",
        "test_values_of_a_thread_that_four_does_not_divide",
    ),
    "generated/test_zero_quotients.py": ("test_0_divided_by_0_is_nan",),
    "language/test_rowwise.py": ("test_what_the_op_refuses_is_told_at_its_place_and_what_works_instead",),
    "peers/test_formulas.py": (
        "test_a_formula_is_known_under_other_names",
        "test_what_computes_something_else_is_not_known",
    ),
    "peers/test_libraries.py": ("test_every_library_computes_what_the_spec_says",),
    "peers/test_peers.py": ("test_the_expression_can_be_compiled_whole",),
    "tuning/test_search.py": (
        "test_an_interrupted_search_goes_on_and_times_nothing_twice",
        "test_times_under_other_conditions_do_not_count",
    ),
    "tuning/test_space.py": ("test_what_is_pruned_is_refused_and_the_rest_is_not",),
    "use/test_hooks.py": ("test_hooks_pass_and_find",),
    "verification/test_carried_state.py": ("test_what_is_right_for_two_rounds_is_found",),
    "verification/test_far_blocks.py": (
        "test_only_these_checks_find_tiles_that_are_counted_wrong",
        "test_sizes_are_those_that_the_module_takes",
    ),
    "verification/test_forms.py": ("test_a_constant_of_one_kernel_that_is_wrong_shows",),
    "verification/test_host_mutants.py": (
        "test_it_is_seen",
        "test_nothing_is_said_of_what_is_right",
    ),
    "verification/test_host_promises.py": ("test_a_broken_promise_is_seen",),
    "verification/test_integer_operands.py": ("test_a_kernel_that_does_not_is_wrong",),
    "verification/test_long_sums.py": (
        "test_only_it_finds_what_counts_wrong",
        "test_what_counts_wrong_for_warps_that_wait_is_found",
        "test_other_ways_to_count_pass",
    ),
    "verification/test_op_mutants.py": (
        "test_an_op_that_is_right_passes",
        "test_an_op_that_is_wrong_is_told",
    ),
    "verification/test_runner.py": (
        "test_a_broken_kernel_is_caught",
        "test_a_missing_host_check_is_caught",
    ),
    "verification/test_telling_cases.py": ("test_only_the_cases_of_its_kind_show_it",),
    "verification/test_telling_order.py": ("test_each_way_kind_of_data_and_layout_is_among_the_first",),
    "verification/test_types_mistaken.py": ("test_mistakes_about_a_type_are_told",),
    "verification/test_walked_tiles.py": (
        "test_a_right_kernel_passes_with_millions_of_tiles",
        "test_tiles_that_are_counted_wrong_are_found",
    ),
}
"""Tests of many parameters, by their files, that take long for what they tell: of each, `make test` takes the first
parameter, of those that `sampled` leaves, and a fifth of the others."""

LONG = ("gemm_bf16_cases",)
"""Specs of so many kernels that a test of one of them takes a minute: none of that fifth is of these."""

WHOLE = {
    "cli/test_bad_input.py": ("test_the_starters_do_not_spill",),
    "codegen/test_banks.py": ("test_no_multiply_add_reads_three_registers_of_one_bank",),
    "codegen/test_regions.py": ("test_marks_leave_no_trace",),
    "drawing/test_kernels.py": ("test_every_plan_that_can_be_made_can_be_drawn",),
    "drawing/test_verb.py": ("test_a_page_for_each_kernel_of_a_matrix",),
    "emulator/host/test_walks.py": ("test_gemm",),
    "emulator/machine/test_refusals.py": ("test_ptxas_agrees",),
    "families/elementwise/test_verify.py": ("test_all_outputs_are_verified_on_the_cpu",),
    "families/rowwise/test_inout.py": ("test_an_old_value_of_a_column_is_part_of_what_is_made_of_all_rows",),
    "generated/test_kinds.py": (
        "test_epilogues_that_read_leave_room_for_two_blocks",
        "test_products_of_fixed_depth_spill_nothing_and_leave_room_for_two_blocks",
    ),
    "generated/test_modules.py": ("test_generated_is_what_the_specs_stand_for",),  # as `make current` says
    "generated/test_threads.py": ("test_first_calls_of_many_modules_may_meet",),
    "verbs/exporting/test_cplusplus.py": ("test_no_name_of_a_spec_is_in_the_way_of_cplusplus",),
    "verbs/exporting/test_export.py": ("test_an_example_is_built_by_cmake_and_runs",),
    "verbs/upgrading/test_verify_with.py": ("test_a_compiler_that_cannot_be_imported",),
    "use/test_llama.py": ("test_it_trains_as_torch_does",),
    "use/test_package.py": ("test_it_works_far_from_a_checkout",),
    # That checks find nothing where nothing is wrong, each verification says that `make test` runs
    "verification/test_host_promises.py": ("test_what_is_promised_is_kept",),
    "verification/test_telling_cases.py": ("test_the_kernels_themselves_are_right",),
    "verification/test_types_mistaken.py": ("test_what_is_right_is_called_right",),
}
"""Tests, by their files, that only `make sweep` runs: they take long, and other tests check most of what they do."""


def leave_for_the_sweep(items: Sequence[pytest.Item], root: Path) -> None:
    """Marks what of `PARTS` and `WHOLE` `make test` leaves out."""
    places: Counter[tuple[Path, str]] = Counter()
    files = {file: file.relative_to(root).as_posix() for file in {i.path for i in items} if file.is_relative_to(root)}
    for item in items:
        name = getattr(item, "originalname", item.name)
        path = files.get(item.path, "")
        if name in WHOLE.get(path, ()):
            item.add_marker("sweep")
        if name in PARTS.get(path, ()) and item.get_closest_marker("sweep") is None:
            if places[item.path, name] and not _is_taken(item.name):
                item.add_marker("sweep")
            places[item.path, name] += 1


def _is_taken(name: str) -> bool:
    """Whether `make test` takes the test of that name, which has its parameters: a fifth of all, by their checksums.

    So a new spec changes nothing for the others.
    """
    return crc32(name.encode()) % EVERY == 0 and not any(spec in name for spec in LONG)


FEWER = 5
SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a test's function; they cannot be changed later in another way."""


def draw_fewer_examples(items: Sequence[pytest.Item], sweep: bool) -> None:
    """Has tests of properties draw a fifth of their examples, which differ from run to run where they are not derived
    from the test; in the sweep all of them draw all.
    """
    tests = {}
    for item in items:
        test = getattr(item, "obj", None)
        if getattr(test, "is_hypothesis_test", False):
            tests[getattr(test, "__func__", test)] = None
            if sweep:
                item.add_marker("sweep")
    for test in () if sweep else tests:
        drawn = getattr(test, SETTINGS, settings.default)
        setattr(test, SETTINGS, settings(drawn, max_examples=max(1, drawn.max_examples // FEWER)))
