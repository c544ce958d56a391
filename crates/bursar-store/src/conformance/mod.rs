//! One suite that every engine passes unchanged.
//!
//! An engine adds a constructor that makes an empty store on the clock and ids it is given, and runs every case of
//! [`CASES`] and [`JOB_CASES`].

mod commands;
mod commit_requests;
mod credentials;
mod grants;
mod held;
mod holds;
mod jobs;
mod journal;
mod mixed;
mod queues;
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

/// A case: its name and what it does in an empty world.
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// Shows it, or panics.
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
    holds::one_refusal_never_fails_its_neighbours,
    holds::commit_returns_the_rest_and_release_all,
    holds::expired_hold_stops_counting_the_instant_it_expires,
    holds::late_commit_is_charged_and_flagged,
    holds::overrun_is_charged_now_and_the_held_part_then,
    holds::refusing_policies_refuse,
    holds::extension_moves_the_expiry,
    holds::second_settle_tells_the_state,
    holds::chain_is_settled_as_it_was_placed,
    holds::clock_that_goes_back_revives_nothing,
    holds::more_expire_at_once_than_one_step_folds,
    windows::rolling_window_is_exact,
    windows::more_leaves_a_rolling_window_than_one_step_folds,
    windows::calendar_window_turns_by_itself,
    windows::bucket_refills,
    windows::window_opened_later_knows_the_past,
    windows::old_postings_are_rolled_up,
    windows::ninth_window_is_refused,
    windows::thresholds_are_told_once,
    windows::trip_freezes_until_the_window_turns,
    windows::sums_never_pass_64_bits,
    windows::drained_bucket_is_not_forgotten,
    windows::definition_tells_what_is_passed_already,
    commands::twins_in_one_batch_have_one_effect,
    commands::repeated_key_gets_the_first_answer,
    commands::refused_request_may_use_its_key_again,
    commands::forgotten_key_is_free_again,
    commands::owner_job_found_charges_nothing,
    commands::job_key_is_unique_in_its_queue,
    commands::dry_run_writes_nothing,
    commands::tenants_are_apart,
    commands::names_and_payloads_come_back_as_they_were,
    commands::lists_go_page_by_page,
    commands::live_holds_go_page_by_page,
    grants::token_is_redeemed_once,
    grants::bad_tokens_are_one_answer,
    grants::revoked_and_purged_grants_are_gone,
    grants::expired_grant_stays_expired_when_the_clock_goes_back,
    credentials::credential_is_rotated_with_an_overlap,
    credentials::credentials_are_no_grants,
    credentials::what_changed_since_it_was_read_is_not_overwritten,
    credentials::keys_are_taken_with_schedules,
    journal::positions_are_dense,
    journal::history_follows_a_thing_backwards,
    journal::links_of_two_tenants_never_meet,
    journal::rebuild_gives_the_same_rows,
    journal::large_payload_stands_beside_the_journal,
    mixed::verify_is_clean_after_a_mixed_stream,
}

cases! {
    /// Jobs and queues.
    JOB_CASES:
    jobs::best_goes_first_over_many_kinds,
    jobs::kinds_are_found_by_name_and_by_beginning,
    jobs::more_come_due_than_one_step_promotes,
    jobs::stale_fence_changes_nothing,
    jobs::lapsed_leases_are_found_and_taken_back,
    jobs::bulk_is_answered_job_by_job,
    jobs::bad_item_of_a_bulk_is_refused_alone,
    jobs::finished_job_is_found_and_comes_back_when_it_is_tried_again,
    jobs::payload_and_result_are_kept_beside_and_forgotten,
    jobs::job_is_found_by_its_key_and_finished_in_one_batch,
    jobs::bad_input_changes_nothing,
    jobs::tenants_have_jobs_of_their_own,
    settled::success_settles_in_the_same_transaction,
    settled::parked_job_is_found_by_its_scope_and_by_time,
    settled::awaited_scopes_are_found_past_all_their_jobs,
    settled::spend_of_a_lost_lease_is_charged_once,
    settled::costs_are_told_by_day_queue_kind_and_scope,
    held::what_is_held_is_told_by_queue_kind_and_unit,
    held::what_is_held_follows_the_attempts_of_a_job,
    held::what_is_held_may_pass_64_bits,
    queues::jobs_of_all_tenants_are_counted_together,
    jobs::trace_goes_with_a_job_from_its_enqueueing_to_its_end,
    queues::key_at_its_limit_is_passed_over_until_a_slot_is_free,
    queues::more_slots_of_a_key_are_used_at_once,
    queues::keys_take_turns,
    queues::rates_put_off,
    queues::slots_cannot_leak,
    queues::figures_are_what_there_is,
    queues::the_oldest_waits_where_its_priority_puts_it,
    queues::old_figures_are_forgotten,
    queues::unused_flow_keys_are_forgotten,
    queues::lists_go_page_by_page,
    queues::finished_jobs_are_kept_as_their_queue_says,
    queues::bell_rings_when_something_is_committed,
    schedules::ticks_enqueue_what_the_policies_say,
    schedules::schedule_is_changed_paused_and_removed,
    schedules::schedules_are_listed_and_found_when_they_are_due,
    schedules::payload_of_a_schedule_comes_with_every_job,
    schedules::bad_schedules_change_nothing,
    stream::random_work_keeps_the_books_and_is_rebuilt,
}
