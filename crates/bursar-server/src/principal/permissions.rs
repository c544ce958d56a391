//! The permission table: which role may perform which action. Every route and every event channel checks it.

pub use crate::wire::role::Role;

/// Whether a role may perform an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Allowed.
    Yes,
    /// Not allowed.
    No,
    /// Allowed for a worker whose capabilities list the action under `mutations`.
    Granted,
}

use Allowed::{Granted as G, No as N, Yes as Y};

macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident = $name:literal [$($allowed:ident),*];)*) => {
        /// An action that a role may be allowed to perform.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $action,)*
        }

        impl Action {
            /// Every action.
            pub const ALL: &[Action] = &[$(Action::$action),*];

            /// Returns the name of the action, which capabilities use too.
            pub fn name(self) -> &'static str {
                match self {
                    $(Action::$action => $name,)*
                }
            }

            /// Returns whether a role may perform the action.
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
    /// Read what is public: health, the OpenAPI document and its page.
    Public = "public"                         [Y, Y, Y, Y, Y, Y, Y];
    /// Read what one's own token may do.
    WhoAmI = "whoami"                         [Y, Y, Y, Y, Y, Y, Y];
    /// Read budgets, their balances and their history.
    BudgetsRead = "budgets.read"              [Y, Y, Y, Y, Y, N, N];
    /// Define, freeze and credit budgets.
    BudgetsWrite = "budgets.write"            [Y, Y, N, N, N, N, N];
    /// Submit commands; place and settle holds.
    CommandsSubmit = "commands.submit"        [Y, Y, Y, Y, N, G, N];
    /// Charge the quota of a caller.
    MeterCheck = "meter.check"                [Y, Y, Y, Y, N, G, N];
    /// Read commands and holds.
    CommandsRead = "commands.read"            [Y, Y, Y, Y, Y, N, N];
    /// Create and revoke grants.
    GrantsWrite = "grants.write"              [Y, Y, N, N, N, G, N];
    /// Erase the payloads of grants.
    GrantsErase = "grants.erase"              [Y, Y, N, N, N, N, N];
    /// Read grants, without their tokens.
    GrantsRead = "grants.read"                [Y, Y, N, N, Y, N, N];
    /// Enqueue jobs.
    JobsEnqueue = "jobs.enqueue"              [Y, Y, Y, Y, N, G, N];
    /// Read jobs, their events and costs, and dead jobs.
    JobsRead = "jobs.read"                    [Y, Y, Y, Y, Y, N, N];
    /// Cancel a job.
    JobsCancel = "jobs.cancel"                [Y, Y, Y, N, N, G, N];
    /// Retry, discard, move, edit and erase jobs, one or many.
    JobsOperate = "jobs.operate"              [Y, Y, N, N, N, N, N];
    /// Lease jobs and report on them.
    JobsWork = "jobs.work"                    [Y, Y, N, N, N, Y, N];
    /// Read queues and their statistics.
    QueuesRead = "queues.read"                [Y, Y, Y, Y, Y, N, N];
    /// Define, pause and resume queues.
    QueuesWrite = "queues.write"              [Y, Y, N, N, N, N, N];
    /// Read schedules.
    SchedulesRead = "schedules.read"          [Y, Y, Y, Y, Y, N, N];
    /// Define, run and remove schedules.
    SchedulesWrite = "schedules.write"        [Y, Y, N, N, N, N, N];
    /// Read blobs; a worker only those of its namespaces.
    BlobsRead = "blobs.read"                  [Y, Y, Y, Y, Y, Y, N];
    /// Upload, delete, restore and refer to blobs; a worker only in its namespaces.
    BlobsWrite = "blobs.write"                [Y, Y, Y, Y, N, Y, N];
    /// Collect blobs, look for orphans, and move bytes to another backend, for all tenants.
    BlobsManage = "blobs.manage"              [Y, N, N, N, N, N, N];
    /// Read the rules of namespaces.
    NamespacesRead = "namespaces.read"        [Y, Y, Y, Y, Y, N, N];
    /// Define the rules of namespaces.
    NamespacesWrite = "namespaces.write"      [Y, Y, N, N, N, N, N];
    /// Read, create, rotate and revoke worker tokens and API keys.
    TokensWrite = "tokens.write"              [Y, Y, N, N, N, N, N];
    /// Read the journal.
    JournalRead = "journal.read"              [Y, Y, N, N, Y, N, N];
    /// Listen to events; each channel is authorized separately.
    EventsListen = "events.listen"            [Y, Y, Y, Y, Y, Y, N];
    /// List the tenants of the installation.
    TenantsRead = "tenants.read"              [Y, N, N, N, N, N, N];
    /// Verify the balances of the whole database.
    Verify = "verify"                         [Y, N, N, N, N, N, N];
    /// Read the metrics of the whole installation.
    MetricsRead = "metrics.read"              [Y, N, N, N, N, N, Y];
}

/// Returns the permission table in Markdown, for `docs/server.md`.
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
