//! `bursar move`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bursar::{Bursar, MoveProgress, MoveReport, MoveStep, TableSummary};
use bursar_server::convert::verify_answer;
use bursar_wire::problem::Problem;
use bursar_wire::report::VerifyAnswer;
use clap::Args;
use serde::Serialize;
use tokio::time::Instant;

use crate::args::GlobalArgs;
use crate::exit::Exit;
use crate::output::{Output, cell, counted, table};
use crate::sqlite_file::{require_file, require_folder};
use crate::target;

/// The arguments of `bursar move`.
#[derive(Args)]
#[command(after_help = "\
The journal with its positions, ids, balances, holds, jobs with their leases, schedules, credentials and idempotency keys are \
moved, and both databases are verified and compared. The target must be empty; until the move has ended, no command opens it. \
Run an interrupted move again to resume it.
Without --follow no other process may use the source, and it is only read. With --follow the source stays in use while it is \
copied. Then it becomes read-only: servers on it fail every write with an error that names the target. --abandon takes that back.
The URLs must lead to the databases themselves, not to a pooler. The bytes of blobs stay where they are.")]
pub(crate) struct Move {
    /// Database to move: sqlite://PATH or postgres://…
    #[arg(long, value_name = "URL", env = "BURSAR_MOVE_FROM", hide_env_values = true)]
    from: String,
    /// Empty database to move it to
    #[arg(
        long,
        value_name = "URL",
        env = "BURSAR_MOVE_TO",
        hide_env_values = true,
        required_unless_present = "abandon"
    )]
    to: Option<String>,
    /// Copy while the source is in use, then make it read-only
    #[arg(long)]
    follow: bool,
    /// Make the source writable again, and the target read-only; leave out --to only if the target is lost
    #[arg(long, conflicts_with = "follow")]
    abandon: bool,
}

/// The result of a move.
#[derive(Serialize)]
struct MoveAnswer {
    from: String,
    to: String,
    /// Whether the target may be used.
    complete: bool,
    /// Whether an earlier run had ended the move.
    ended_before: bool,
    position: u64,
    /// The rows that this run wrote or deleted.
    changed: u64,
    passes: u32,
    /// How long the source was read-only until the target could be used; `None` if this run did not switch.
    pause_ms: Option<u128>,
    tables: Vec<TableAnswer>,
    tenants: Vec<TenantAnswer>,
    differences: Vec<String>,
    source_verified: VerifyAnswer,
    target_verified: VerifyAnswer,
}

/// A table in both databases.
#[derive(Serialize)]
struct TableAnswer {
    table: &'static str,
    rows: u64,
    rows_in_target: u64,
    states: Vec<(&'static str, u64)>,
    sha256: String,
    equal: bool,
}

/// The units of a tenant in the source, as text because they may exceed 64 bits.
#[derive(Serialize)]
struct TenantAnswer {
    tenant: String,
    scopes: u64,
    posted: String,
    held: String,
    equal: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Move, global: &GlobalArgs) -> Result<Exit, Problem> {
    target::forbid_server_flag(global)?;
    let out = Output::new(global.json);
    require_file(&args.from)?;
    let Some(to) = args.to else {
        return abandon(&args.from, None, out).await;
    };
    require_folder(&to)?;
    if args.abandon {
        return abandon(&args.from, Some(&to), out).await;
    }
    let report = Bursar::relocate(&args.from, &to, args.follow, progress(out)).await?;
    let answer = MoveAnswer::of(&report);
    out.data(&answer, || answer.describe())?;
    if report.ended_before && !report.differences.is_empty() {
        out.note("error: the databases differ, so one of them was written since the move");
        return Ok(Exit::Failed);
    }
    if !report.complete {
        out.note("error: the databases differ or are not sound; the target is not opened and the source can be used");
        out.note("hint: check the source with `bursar verify`, empty the target, and move again");
        return Ok(Exit::Failed);
    }
    if answer.tables.iter().any(|table| table.table == "blobs" && table.rows > 0) {
        out.note("the bytes of blobs were not moved: serve the target with the storage of the source, and set `blobs.directory` if the source \
             has no `blobs.*` settings, because the default depends on the database");
    }
    match report.switched {
        true => out.note("the source is read-only; if the target cannot be used, run `bursar move --abandon` with the same --from and --to"),
        false => out.note("the source was not changed: write to only one of the two databases from now on"),
    }
    Ok(Exit::Done)
}

async fn abandon(from: &str, to: Option<&str>, out: Output) -> Result<Exit, Problem> {
    let position = Bursar::abandon_move(from, to).await?;
    out.data(&serde_json::json!({ "position": position }), || {
        format!("the move is abandoned: the source can be written again, after position {position}")
    })?;
    if to.is_none() {
        out.note("the target was not checked: make sure that no process uses it");
    }
    Ok(Exit::Done)
}

/// How often rows are reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Reports steps on standard error: the switch and the ends of passes, and rows once a second.
fn progress(out: Output) -> MoveProgress {
    let reported = Mutex::new(Instant::now());
    Arc::new(move |step| {
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match step {
            MoveStep::Copying { table, rows } | MoveStep::Copied { table, rows, .. } => {
                if reported.elapsed() < PROGRESS_INTERVAL {
                    return;
                }
                format!("compared {} of {table}", counted(rows, "row"))
            }
            MoveStep::Passed { pass, changed } => format!("pass {pass}: wrote {}", counted(changed, "row")),
            MoveStep::Switched { position } => format!("the source is read-only, up to position {position}"),
            MoveStep::LeftSwitched => "the source is still read-only: run the same `bursar move` again, or with \
                 --abandon instead of --follow"
                .to_owned(),
            MoveStep::Claimed | MoveStep::Compared | MoveStep::Verified | MoveStep::Opened => return,
        };
        *reported = Instant::now();
        out.note(&text);
    })
}

impl MoveAnswer {
    fn of(report: &MoveReport) -> MoveAnswer {
        let (source, target) = &report.summaries;
        let tables = source.tables.iter().zip(&target.tables).map(|(source, target)| {
            let TableSummary { table, rows, states, digest } = source;
            TableAnswer {
                table,
                rows: *rows,
                rows_in_target: target.rows,
                states: states.iter().map(|(state, count)| (*state, *count)).collect(),
                sha256: digest.clone(),
                equal: source == target,
            }
        });
        let tenants = source.tenants.iter().map(|(tenant, sums)| TenantAnswer {
            tenant: tenant.clone(),
            scopes: sums.scopes,
            posted: sums.posted.to_string(),
            held: sums.held.to_string(),
            equal: target.tenants.get(tenant) == Some(sums),
        });
        MoveAnswer {
            from: report.from.clone(),
            to: report.to.clone(),
            complete: report.complete,
            ended_before: report.ended_before,
            position: source.position,
            changed: report.changed,
            passes: report.passes,
            pause_ms: report.pause.map(|pause| pause.as_millis()),
            tables: tables.collect(),
            tenants: tenants.collect(),
            differences: report.differences.clone(),
            source_verified: verify_answer(&report.reports.0),
            target_verified: verify_answer(&report.reports.1),
        }
    }

    fn describe(&self) -> String {
        let rows: u64 = self.tables.iter().map(|table| table.rows).sum();
        let (from, to, position) = (&self.from, &self.to, self.position);
        let mut lines = vec![match (self.complete, self.ended_before) {
            (true, false) => {
                format!("moved {from} to {to}: {}, up to position {position}", counted(rows, "row"))
            }
            (true, true) => format!("{from} was moved to {to} before, up to position {position}"),
            (false, _) => format!("{from} was not moved to {to}"),
        }];
        if let Some(pause) = self.pause_ms {
            lines.push(format!("writes were refused for {}.{:03} s", pause / 1_000, pause % 1_000));
        }
        let filled = self.tables.iter().filter(|table| table.rows > 0 || table.rows_in_target > 0);
        let cells = filled.map(|table| {
            let states: Vec<String> = table.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
            let states = (!states.is_empty()).then(|| states.join(", "));
            let equal = if table.equal { "yes" } else { "no" };
            vec![table.table.to_owned(), table.rows.to_string(), equal.to_owned(), cell(states)]
        });
        lines.push(table(&["TABLE", "ROWS", "EQUAL", "STATES"], &cells.collect::<Vec<_>>()));
        let cells = self.tenants.iter().map(|sums| {
            let equal = if sums.equal { "yes" } else { "no" };
            vec![sums.tenant.clone(), sums.scopes.to_string(), sums.posted.clone(), sums.held.clone(), equal.to_owned()]
        });
        if !self.tenants.is_empty() {
            lines.push(table(&["TENANT", "SCOPES", "POSTED", "HELD", "EQUAL"], &cells.collect::<Vec<_>>()));
        }
        lines.extend(self.differences.iter().map(|difference| format!("difference: {difference}")));
        for (side, verified) in [("source", &self.source_verified), ("target", &self.target_verified)] {
            lines.extend(verified.violations.iter().map(|violation| format!("violation in the {side}: {violation}")));
        }
        lines.join("\n")
    }
}
