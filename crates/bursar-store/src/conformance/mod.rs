//! The test suite that every engine passes.
//!
//! An engine provides a function that creates an empty store with a given clock and source of ids, and runs every case of
//! [`CASES`], [`JOB_CASES`] and [`BLOB_CASES`] on a new store.

mod archive;
mod blobs;
mod commands;
mod commit_requests;
mod credentials;
mod dead;
mod erasure;
mod grants;
mod held;
mod holds;
mod jobs;
mod journal;
mod mixed;
mod queues;
mod retention;
mod schedules;
mod settled;
mod stream;
mod windows;
mod work;
mod world;

use std::future::Future;
use std::pin::Pin;

pub use self::commit_requests::{CommitRequests, checked};
pub use self::stream::job_stream;
pub use self::world::World;

/// A test case.
pub struct Case {
    /// The name, a sentence in snake case.
    pub name: &'static str,
    /// Runs the case on an empty store. Panics if it fails.
    pub run: fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

macro_rules! cases {
    ($(#[$doc:meta])* $list:ident: $($module:ident::$name:ident,)*) => {
        $(#[$doc])*
        pub const $list: &[Case] = &[
            $(Case { name: stringify!($name), run: |world| Box::pin($module::$name(world)) },)*
        ];
    };
}

cases! {
    /// Scopes, holds, grants, commands and the journal.
    CASES:
    holds::limit_admits_up_to_its_amount,
    holds::a_refusal_does_not_affect_other_requests,
    holds::commit_returns_the_rest_and_release_returns_all,
    holds::expired_hold_stops_counting_the_instant_it_expires,
    holds::late_commit_is_charged_and_flagged,
    holds::overrun_counts_at_commit_and_the_held_part_at_placement,
    holds::late_commits_and_overruns_are_refused_by_policy,
    holds::extension_moves_the_expiry,
    holds::a_settled_hold_cannot_be_settled_again,
    holds::hold_is_settled_on_the_parents_it_was_placed_on,
    holds::clock_set_back_does_not_revive_expired_holds,
    holds::more_holds_expire_than_one_step_folds,
    holds::expiry_posts_its_charge_the_instant_it_expires,
    holds::removed_budget_stays_removed_and_can_be_defined_again,
    windows::rolling_window_is_exact,
    windows::more_postings_leave_a_window_than_one_step_folds,
    windows::calendar_window_resets_at_its_end,
    windows::bucket_refills,
    windows::new_window_includes_earlier_postings_and_holds,
    windows::old_postings_are_rolled_up,
    windows::ninth_window_is_refused,
    windows::threshold_crossings_are_recorded_once,
    windows::tripped_scope_is_frozen_until_the_window_resets,
    windows::shadow_budget_refuses_nothing_and_records_it,
    windows::sums_never_overflow_64_bits,
    windows::drained_bucket_is_not_deleted,
    windows::definition_records_thresholds_already_crossed,
    commands::equal_requests_in_one_batch_have_one_effect,
    commands::repeated_key_returns_the_first_answer,
    commands::refused_request_can_be_retried_with_its_key,
    commands::expired_key_can_be_reused,
    commands::existing_owner_job_is_not_charged_again,
    commands::job_key_is_unique_in_its_queue,
    commands::dry_run_writes_nothing,
    commands::tenants_are_isolated,
    commands::names_and_payloads_are_stored_unchanged,
    commands::scopes_are_listed_in_pages,
    commands::live_holds_are_listed_in_pages,
    grants::token_is_redeemed_once,
    grants::bad_tokens_get_the_same_answer,
    grants::revoked_and_purged_grants_cannot_be_redeemed,
    grants::grants_are_listed_from_either_end,
    grants::expired_grant_stays_expired_when_the_clock_is_set_back,
    credentials::credential_is_rotated_with_an_overlap,
    credentials::credentials_are_separate_from_grants,
    credentials::if_match_refuses_to_overwrite_a_change,
    credentials::idempotency_keys_work_for_schedules,
    retention::ended_holds_are_deleted_after_their_retention,
    retention::expired_grants_are_deleted_after_their_retention,
    retention::scopes_without_events_are_deleted,
    journal::positions_have_no_gaps,
    journal::history_of_a_scope_can_be_followed_backwards,
    journal::history_links_of_tenants_are_separate,
    journal::rebuild_restores_the_same_rows,
    journal::large_payload_is_stored_outside_the_journal,
    erasure::erased_payloads_of_a_job_are_nowhere,
    erasure::what_is_in_use_is_not_erased,
    erasure::archived_rows_have_no_payloads,
    archive::archived_rows_are_read_and_rebuilt_as_before,
    archive::a_row_that_answers_a_key_is_not_archived,
    archive::young_rows_stay_in_the_journal,
    archive::only_the_next_segment_is_recorded,
    archive::the_last_segment_is_put_back,
    mixed::verify_finds_nothing_after_a_mixed_stream,
}

cases! {
    /// Jobs and queues.
    JOB_CASES:
    jobs::best_rank_is_leased_first_across_kinds,
    jobs::kinds_match_by_name_and_by_prefix,
    jobs::more_jobs_come_due_than_one_step_promotes,
    jobs::stale_fence_changes_nothing,
    jobs::checkpoint_is_carried_by_the_next_lease,
    jobs::only_the_lease_emits_events,
    jobs::expired_leases_are_found_and_rescued,
    jobs::bulk_request_has_one_answer_per_job,
    jobs::invalid_item_of_a_bulk_is_refused_alone,
    jobs::finished_job_can_be_read_and_retried,
    jobs::large_payload_and_result_are_deleted_with_their_job,
    jobs::one_batch_can_enqueue_and_finish_a_keyed_job,
    jobs::invalid_requests_change_nothing,
    jobs::jobs_of_tenants_are_isolated,
    settled::success_settles_the_hold_in_the_same_transaction,
    settled::job_awaiting_budget_is_found_by_scope_and_time,
    settled::awaited_scopes_are_listed_once_each,
    settled::spend_of_a_lost_lease_is_charged_once,
    settled::costs_are_listed_by_day_queue_kind_and_scope,
    retention::the_hold_of_a_job_is_kept_as_long_as_the_job,
    retention::costs_are_deleted_after_their_retention,
    retention::overdue_rows_are_counted,
    held::held_units_are_listed_by_queue_kind_and_unit,
    held::held_units_follow_the_attempts_of_a_job,
    held::held_units_may_exceed_64_bits,
    held::holds_are_found_by_their_ids,
    dead::dead_jobs_are_grouped_by_queue_kind_and_error,
    dead::a_group_shrinks_when_a_job_of_it_leaves,
    dead::groups_of_dead_jobs_are_listed_in_pages,
    queues::queues_of_all_tenants_are_counted,
    jobs::trace_context_is_kept_until_a_job_ends,
    queues::flow_key_at_its_limit_is_skipped_until_a_slot_is_free,
    queues::raised_key_concurrency_takes_effect_at_once,
    queues::flow_keys_are_leased_round_robin,
    queues::rates_delay_jobs,
    queues::slots_cannot_leak,
    queues::figures_match_the_jobs,
    queues::oldest_waiting_job_is_found_at_any_priority,
    queues::old_figures_are_deleted,
    queues::unused_flow_keys_are_deleted,
    queues::jobs_and_queues_are_listed_in_pages,
    queues::finished_jobs_are_kept_for_the_retention_of_their_queue,
    queues::change_counter_changes_with_every_commit,
    schedules::missed_ticks_follow_the_policy,
    schedules::schedule_is_changed_paused_and_removed,
    schedules::schedules_are_listed_and_due_ones_found,
    schedules::every_job_of_a_schedule_has_its_payload,
    schedules::invalid_schedules_change_nothing,
    stream::random_job_stream_verifies_and_can_be_rebuilt,
}

cases! {
    /// Blobs and namespaces.
    BLOB_CASES:
    retention::the_hold_of_a_blob_is_kept_until_it_is_collected,
    blobs::an_upload_becomes_live_and_is_found_by_its_bytes,
    blobs::a_deleted_blob_is_not_found_and_can_be_restored,
    blobs::an_upload_that_is_not_as_announced_is_refused,
    blobs::bytes_are_held_posted_and_credited,
    blobs::an_upload_of_unknown_length_holds_more_as_it_grows,
    blobs::a_job_keeps_the_blobs_it_uses_and_makes,
    blobs::a_blob_made_under_a_lost_lease_is_not_referenced,
    blobs::the_application_keeps_a_blob_by_name,
    blobs::blobs_without_references_are_collected_if_their_namespace_says_so,
    blobs::a_doomed_blob_is_gone_for_good,
    blobs::uploads_that_stand_still_are_collected,
    blobs::blobs_of_tenants_are_isolated,
    blobs::blobs_and_namespaces_are_listed_in_pages,
    blobs::a_repeated_upload_request_has_one_effect,
    blobs::rebuild_restores_blobs,
}
