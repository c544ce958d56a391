//! Who may do what: the one table that every route and stream asks.

pub use crate::wire::role::Role;

/// Whether a role may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// A worker may whose capabilities name it among `mutations`.
    Granted,
}

use Allowed::{Granted as G, No as N, Yes as Y};

macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident = $name:literal [$($allowed:ident),*];)*) => {
        /// What can be done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $action,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Action] = &[$(Action::$action),*];

            /// Its name, by which capabilities name it too.
            pub fn name(self) -> &'static str {
                match self {
                    $(Action::$action => $name,)*
                }
            }

            /// Whether a role may do it.
            pub fn allows(self, role: Role) -> Allowed {
                let row: [Allowed; Role::ALL.len()] = match self {
                    $(Action::$action => [$($allowed),*],)*
                };
                row[role as usize]
            }
        }
    };
}

actions! {
    //                                        operator, admin, user, agent, viewer, worker, monitor
    /// What anybody may see: health, the document and its page.
    Public = "public"                         [Y, Y, Y, Y, Y, Y, Y];
    /// See budgets, what is left of them and their history.
    BudgetsRead = "budgets.read"              [Y, Y, Y, Y, Y, N, N];
    /// Define, freeze and credit budgets.
    BudgetsWrite = "budgets.write"            [Y, Y, N, N, N, N, N];
    /// Submit commands; place and settle holds.
    CommandsSubmit = "commands.submit"        [Y, Y, Y, Y, N, G, N];
    /// See commands and holds.
    CommandsRead = "commands.read"            [Y, Y, Y, Y, Y, N, N];
    /// Make and revoke grants.
    GrantsWrite = "grants.write"              [Y, Y, N, N, N, G, N];
    /// See grants, without their secrets.
    GrantsRead = "grants.read"                [Y, Y, N, N, Y, N, N];
    /// Enqueue jobs.
    JobsEnqueue = "jobs.enqueue"              [Y, Y, Y, Y, N, G, N];
    /// See jobs, their events and costs, and dead letters.
    JobsRead = "jobs.read"                    [Y, Y, Y, Y, Y, N, N];
    /// Cancel a job.
    JobsCancel = "jobs.cancel"                [Y, Y, Y, N, N, G, N];
    /// Retry, discard, move and edit jobs, and act on many.
    JobsOperate = "jobs.operate"              [Y, Y, N, N, N, N, N];
    /// Lease jobs and report on them.
    JobsWork = "jobs.work"                    [Y, Y, N, N, N, Y, N];
    /// See queues and their figures.
    QueuesRead = "queues.read"                [Y, Y, Y, Y, Y, N, N];
    /// Set up, pause and resume queues.
    QueuesWrite = "queues.write"              [Y, Y, N, N, N, N, N];
    /// See schedules.
    SchedulesRead = "schedules.read"          [Y, Y, Y, Y, Y, N, N];
    /// Set up, run and remove schedules.
    SchedulesWrite = "schedules.write"        [Y, Y, N, N, N, N, N];
    /// See, make, rotate and revoke tokens of workers and API keys.
    TokensWrite = "tokens.write"              [Y, Y, N, N, N, N, N];
    /// Read the journal.
    JournalRead = "journal.read"              [Y, Y, N, N, Y, N, N];
    /// Listen to events; each channel asks for itself.
    EventsListen = "events.listen"            [Y, Y, Y, Y, Y, Y, N];
    /// Check the books of the whole database.
    Verify = "verify"                         [Y, N, N, N, N, N, N];
    /// Read metrics of the whole installation.
    MetricsRead = "metrics.read"              [Y, N, N, N, N, N, Y];
}

/// The table for the documentation.
pub fn markdown() -> String {
    let names = Role::ALL.map(Role::name).join(" | ");
    let line = "| --- ".repeat(Role::ALL.len() + 1);
    let rows = Action::ALL.iter().map(|action| {
        let cells = Role::ALL.map(|role| match action.allows(role) {
            Allowed::Yes => "yes",
            Allowed::No => "",
            Allowed::Granted => "if granted",
        });
        format!("| `{}` | {} |\n", action.name(), cells.join(" | "))
    });
    format!("| action | {names} |\n{line}|\n{}", rows.collect::<String>())
}
