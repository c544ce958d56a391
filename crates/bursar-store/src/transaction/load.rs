//! Loads and locks the rows of a batch: idempotency keys, schedules, jobs, blobs, holds, grants and scopes, each kind sorted. Then brings every
//! scope to the instant of the batch.

use std::collections::{BTreeSet, HashSet};

use bursar_core::decide::{Gap, reapply, reapply_for};
use bursar_core::event::{Batch, Entry, Event, Stream};
use bursar_core::id::{GrantId, HoldId, JobId};
use bursar_core::mutant::Mutant;
use bursar_core::needs::Needs;
use bursar_core::scope::{Balance, Bounds, Due, DueQuery, ScopeState, WindowHistory};
use bursar_core::state::{ScopeKey, Workspace};
use bursar_core::time::{Span, Time};
use bursar_core::window::{Window, Zone};

use super::blocked::Blocked;
use super::rows::HistoryQuery;
use super::{BatchStart, Rows, load_blobs, load_jobs};
use crate::error::StoreError;

/// Loads the rows that a batch of the journal changes, and applies its events again.
pub async fn replay<R: Rows>(rows: &mut R, batch: &Batch) -> Result<Workspace, StoreError> {
    replay_with(rows, batch, |ws, entry| {
        reapply(ws, entry);
        Ok(())
    })
    .await
}

/// Loads the rows that a batch of the journal changes, and applies again what the row of one stream follows from. Fails if the stream's
/// events are not complete.
pub async fn replay_for<R: Rows>(rows: &mut R, batch: &Batch, of: &Stream) -> Result<Workspace, StoreError> {
    replay_with(rows, batch, |ws, entry| {
        reapply_for(ws, entry, of).map_err(|Gap { command, kind }| {
            StoreError::corrupt("journal", format!("{kind} of {command} does not follow from earlier events of {of}"))
        })
    })
    .await
}

async fn replay_with<R: Rows>(
    rows: &mut R,
    batch: &Batch,
    apply: impl Fn(&mut Workspace, &Entry) -> Result<(), StoreError>,
) -> Result<Workspace, StoreError> {
    let mut needs = Needs::default();
    for entry in &batch.entries {
        needs.add_entry(entry);
    }
    let start = BatchStart { floor: batch.at, batch: batch.id };
    loop {
        let (mut ws, _) = load(rows, needs.clone(), start, Some(batch.at)).await?;
        if !ws.unfolded_scopes.is_empty() {
            ws.take_expiry_postings();
            rows.store(&ws, None).await?;
            continue;
        }
        if let Some(zone) = ws.unknown_zones.values().next() {
            return Err(unknown_zone(zone));
        }
        for entry in &batch.entries {
            apply(&mut ws, entry)?;
        }
        ws.take_expiry_postings();
        return Ok(ws);
    }
}

/// Loads and locks rows in the lock order, then brings the scopes to the instant of the batch. `replayed_at` is that instant if a batch of
/// the journal is applied again; otherwise it follows from the clock and the locked scopes.
pub(super) async fn load<R: Rows>(
    rows: &mut R,
    needs: Needs,
    start: BatchStart,
    replayed_at: Option<Time>,
) -> Result<(Workspace, Blocked), StoreError> {
    let mut ws = Workspace::new(Time::MIN, start.batch);
    let mut blocked = Blocked::default();
    let mut needs = needs;
    load_keys(rows, &mut ws, &mut needs, replayed_at.is_some()).await?;
    load_jobs::load(rows, &mut ws, &mut needs, &mut blocked, replayed_at.is_some()).await?;
    let claimed = load_jobs::claim(rows, &mut ws, &mut needs).await?;
    load_blobs::load(rows, &mut ws, &mut needs, &mut blocked).await?;
    rows.prefetch(&needs).await?;

    let wanted: Vec<HoldId> = needs.holds.iter().copied().collect();
    if !wanted.is_empty() {
        let found = rows.holds(&wanted).await?;
        for (id, hold) in found.rows {
            ws.holds.load(id, Some(hold));
        }
        blocked.holds.extend(found.blocked);
        wanted.into_iter().for_each(|id| ws.holds.load(id, None));
    }
    // The next attempt of a job may need a hold like its last one. A job that was locked when it was loaded may have been claimed since;
    // its hold is not loaded.
    let held = |id: &JobId| ws.jobs.get(id)?.hold.filter(|hold| ws.holds.is_loaded(hold));
    let job_holds = needs.jobs.iter().filter_map(|id| ws.holds.get(&held(id)?)).cloned();
    job_holds.collect::<Vec<_>>().iter().for_each(|hold| needs.add_hold_windows(hold));
    let wanted: Vec<GrantId> = needs.grants.iter().copied().collect();
    if !wanted.is_empty() {
        let found = rows.grants(&wanted).await?;
        for (id, grant) in found.rows {
            ws.grants.load(id, Some(grant));
        }
        blocked.grants.extend(found.blocked);
        if ws.grants.count() < wanted.len() {
            wanted.into_iter().for_each(|id| ws.grants.load(id, None));
        }
    }
    load_scopes(rows, &mut ws, &mut blocked, &needs).await?;

    let clock = match replayed_at {
        Some(at) => at,
        None => {
            let clock = rows.now().await?.max(start.floor);
            // Each transaction on a scope has a later instant than the one before.
            let seen = ws.scopes.iter().map(|(_, row)| row.seen.after(Span::from_micros(1))).max();
            if Mutant::ClockGoesBack.on() { rows.now().await? } else { clock.max(seen.unwrap_or(Time::MIN)) }
        }
    };
    ws.now = clock;
    advance(rows, &mut ws, replayed_at.is_some()).await?;
    open_windows(rows, &mut ws, &needs).await?;
    load_jobs::rank_claims(&mut ws, claimed, &mut blocked);
    Ok((ws, blocked))
}

/// Loads idempotency keys with the journal entries they refer to, and jobs by their idempotency keys.
async fn load_keys<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    needs: &mut Needs,
    replay: bool,
) -> Result<(), StoreError> {
    let wanted: Vec<_> = needs.keys.iter().cloned().collect();
    if !wanted.is_empty() {
        let found = rows.keys(&wanted).await?;
        let recorded: Vec<_> = found.iter().map(|(_, row)| (row.batch, row.command)).collect();
        if !recorded.is_empty() && !replay {
            for entry in rows.entries(&recorded).await? {
                needs.grants.extend(redeemed(&entry));
                ws.replays.insert(entry.id, entry);
            }
            if let Some((_, missing)) = recorded.iter().find(|(_, command)| !ws.replays.contains_key(command)) {
                return Err(StoreError::corrupt(
                    "journal",
                    format!("entry {missing} of an idempotency key is missing"),
                ));
            }
        }
        found.into_iter().for_each(|(key, row)| ws.keys.load(key, Some(row)));
        wanted.into_iter().for_each(|key| ws.keys.load(key, None));
    }
    let wanted: Vec<_> = needs.job_keys.iter().cloned().collect();
    if !wanted.is_empty() {
        let found = rows.job_keys(&wanted).await?;
        let ids: Vec<_> = found.iter().map(|(_, id)| *id).collect();
        if !ids.is_empty() {
            for (id, job) in rows.jobs(&ids, false).await?.rows {
                needs.holds.extend(job.hold);
                ws.jobs.load(id, Some(job));
            }
            ids.into_iter().for_each(|id| ws.jobs.load(id, None));
        }
        found.into_iter().for_each(|(key, id)| ws.job_keys.load(key, Some(id)));
        wanted.into_iter().for_each(|key| ws.job_keys.load(key, None));
    }
    Ok(())
}

/// Loads the scopes that requests name, those of the holds, and the ancestors of both.
async fn load_scopes<R: Rows>(
    rows: &mut R,
    ws: &mut Workspace,
    blocked: &mut Blocked,
    needs: &Needs,
) -> Result<(), StoreError> {
    let held = needs.holds.iter().filter_map(|id| ws.holds.get(id));
    let held = held.flat_map(|hold| hold.totals().into_keys().map(|scope| (hold.tenant.clone(), scope)));
    let held: BTreeSet<ScopeKey> = held.filter(|key| !needs.scopes.contains_key(key)).collect();
    let mut wanted: Vec<_> = needs.scopes.iter().map(|(key, need)| (key.clone(), need.create)).collect();
    if !held.is_empty() {
        wanted.extend(held.into_iter().map(|key| (key, false)));
        wanted.sort_unstable();
    }
    while !wanted.is_empty() {
        if Mutant::LockInAnyOrder.on() {
            wanted.reverse();
        }
        let found = rows.scopes(&wanted).await?;
        let mut parents = BTreeSet::new();
        for (key, row) in found.rows {
            let parent = row.budget.as_ref().and_then(|budget| budget.parent.clone());
            parents.extend(parent.map(|parent| (key.0.clone(), parent)));
            ws.scopes.load(key, Some(row));
        }
        blocked.scopes.extend(found.blocked);
        wanted.into_iter().for_each(|(key, _)| ws.scopes.load(key, None));
        wanted = parents.into_iter().filter(|key| !ws.scopes.is_loaded(key)).map(|key| (key, false)).collect();
    }
    Ok(())
}

/// Brings every loaded scope to the instant of the batch: folds expired charges, postings that have left a window and calendar windows
/// that have ended into its balances. The number of charges and postings is bounded; a scope with more is added to `unfolded_scopes`.
///
/// A folded scope is written even if no event changes it, so that the next transaction need not fold it again. A replay does not write
/// it: the journal may still contain events of the scope at an earlier instant, from a node whose clock was behind.
async fn advance<R: Rows>(rows: &mut R, ws: &mut Workspace, replay: bool) -> Result<(), StoreError> {
    let now = ws.now;
    let (nothing_due, no_query) = (Due::default(), DueQuery { charges_after: None, postings: Vec::new() });
    let mut queries: Vec<(ScopeKey, DueQuery)> = Vec::new();
    let mut windows_ended = Vec::new();
    for (key, row) in ws.scopes.peek_all() {
        let query = row.due_query(now);
        if !query.is_empty() {
            queries.push((key.clone(), query));
            continue;
        }
        if row.calendar_window_ended(now) {
            windows_ended.push(key.clone());
        }
        row.advance(now, &nothing_due, &no_query);
    }
    for key in windows_ended {
        // The start of a new calendar window is stored even if no event changes the scope.
        let row = if replay { ws.scopes.peek_mut(&key) } else { ws.scopes.get_mut(&key) };
        if let Some(zone) = row.and_then(|row| row.unknown_zone(now)).cloned() {
            ws.unknown_zones.insert(key, zone);
        }
    }
    if queries.is_empty() {
        return Ok(());
    }
    let due = rows.due(&queries, now).await?;
    for ((key, query), due) in queries.into_iter().zip(due) {
        let row = if replay { ws.scopes.peek_mut(&key) } else { ws.scopes.get_mut(&key) };
        let row = row.expect("the scope is loaded");
        if !row.advance(now, &due, &query) {
            ws.scopes.get_mut(&key);
            ws.unfolded_scopes.insert(key);
        } else if let Some(zone) = row.unknown_zone(now).cloned() {
            ws.unknown_zones.insert(key, zone);
        }
    }
    Ok(())
}

/// Opens balances for windows that requests need and their scopes do not have yet.
async fn open_windows<R: Rows>(rows: &mut R, ws: &mut Workspace, needs: &Needs) -> Result<(), StoreError> {
    let mut queries = Vec::new();
    let mut windows = Vec::new();
    for (key, need) in needs.scopes.iter().filter(|(_, need)| !(need.windows.is_empty() && need.defaults.is_empty())) {
        let Some(row) = ws.scopes.get(key).filter(|_| !ws.unfolded_scopes.contains(key)) else { continue };
        let defaults = need.defaults.iter().filter(|_| row.takes_default());
        let missing = row.missing(need.windows.iter().chain(defaults));
        if missing.is_empty() {
            continue;
        }
        let wanted = need.windows.union(&need.defaults).cloned().collect();
        ws.scopes.peek_mut(key).expect("the scope is loaded").forget_prepared(&wanted);
        let row = ws.scopes.get(key).expect("the scope is loaded");
        for window in missing {
            windows.push((key.clone(), window.clone()));
            queries.push(history_query(key, row, &window, ws.now)?);
        }
    }
    if windows.is_empty() {
        return Ok(());
    }
    // A scope without postings and holds needs no query.
    let fresh = |key: &ScopeKey| ws.scopes.get(key).is_some_and(|row| row.postings == 0 && row.balances[0].held == 0);
    let fresh: HashSet<ScopeKey> = queries.iter().map(|query| query.scope.clone()).filter(|key| fresh(key)).collect();
    let queried: Vec<HistoryQuery> = queries.iter().filter(|query| !fresh.contains(&query.scope)).cloned().collect();
    let histories = if queried.is_empty() { Vec::new() } else { rows.window_histories(&queried).await? };
    let (now, mut histories) = (ws.now, histories.into_iter());
    for ((key, window), query) in windows.into_iter().zip(queries) {
        let is_fresh = fresh.contains(&key);
        let mut history =
            if is_fresh { WindowHistory::default() } else { histories.next().expect("one history for each query") };
        // The balance is stored even if the request is refused, so that the next request need not sum again. A dry run stores nothing.
        let stored = needs.scopes.get(&key).is_some_and(|need| need.create) && !is_fresh;
        let row = if stored { ws.scopes.get_mut(&key) } else { ws.scopes.peek_mut(&key) };
        let row = row.expect("the scope is loaded");
        history.held = match window {
            Window::Rolling { .. } => row.balances[0].held,
            _ => history.held + row.recently_held(query.placed_from),
        };
        let bounds = Bounds { after: query.after, until: query.until, placed_from: query.placed_from };
        row.add_expiry_postings(bounds, &mut history);
        row.prepare(window, now, history);
    }
    Ok(())
}

/// Returns the query for the history of a window to open.
fn history_query(key: &ScopeKey, row: &ScopeState, window: &Window, now: Time) -> Result<HistoryQuery, StoreError> {
    // A request with an unknown time zone was refused before, but the journal may contain a zone that only newer builds know.
    if let (Window::Calendar { zone, .. }, Err(_)) = (window, window.check()) {
        return Err(unknown_zone(zone));
    }
    Ok(HistoryQuery::of(key, row, &Balance::open(window.clone(), now, WindowHistory::default())))
}

/// Brings a scope to the present for a reader, without writing it.
pub async fn view<R: Rows>(
    rows: &mut R,
    key: &ScopeKey,
    row: ScopeState,
    clock: Time,
) -> Result<ScopeState, StoreError> {
    let mut row = row;
    let now = clock.max(row.seen);
    loop {
        let query = row.due_query(now);
        let due = if query.is_empty() {
            Due::default()
        } else {
            rows.due(&[(key.clone(), query.clone())], now).await?.remove(0)
        };
        if row.advance(now, &due, &query) {
            row.balances.retain(|balance| !balance.prospective);
            return Ok(row);
        }
    }
}

/// Returns the grants that a command redeemed.
pub(super) fn redeemed(entry: &Entry) -> impl Iterator<Item = GrantId> {
    entry.events.iter().filter_map(|recorded| match recorded.e {
        Event::GrantRedeemed { grant, .. } => Some(grant),
        _ => None,
    })
}

fn unknown_zone(zone: &Zone) -> StoreError {
    StoreError::Unavailable {
        what: format!("the journal has windows in the time zone {zone}, which this build does not know"),
        hint: "use a build with newer zone data",
        permanent: true,
        source: None,
    }
}
