//! The program with row-level security, set up as docs/operations.md says: a login that is no superuser owns the tables, and takes a role
//! that owns nothing.

use bursar_testkit::Cluster;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::workdir::{Finished, Workdir};

const OWNER: &str = "bursar_owner";
const APP: &str = "bursar_app";

/// A folder, and a database that belongs to a login without special privileges.
struct Installation {
    dir: Workdir,
    database: String,
    superuser: String,
}

impl Installation {
    fn new(cluster: &Cluster) -> Installation {
        let superuser = cluster.fresh_database();
        let name = superuser.rsplit('/').next().expect("a URL ends with its database").to_owned();
        // Roles belong to the server, which each test has for itself.
        execute(
            &superuser,
            &format!(
                "CREATE ROLE {OWNER} LOGIN; CREATE ROLE {APP} NOLOGIN; GRANT {APP} TO {OWNER};
                ALTER DATABASE {name} OWNER TO {OWNER}"
            ),
        );
        let database = superuser.replace("postgres@", &format!("{OWNER}@"));
        Installation { dir: Workdir::empty(), database, superuser }
    }

    /// Runs a command that takes the role.
    fn run(&self, args: &[&str]) -> Finished {
        self.dir.run_in(&[("BURSAR_DATABASE", &self.database), ("BURSAR_POSTGRES_ROLE", APP)], args, "")
    }

    /// Runs a command without the role.
    fn run_as_owner(&self, args: &[&str]) -> Finished {
        self.dir.run_in(&[("BURSAR_DATABASE", &self.database)], args, "")
    }
}

/// Runs statements.
fn execute(url: &str, statements: &str) {
    runtime().block_on(async {
        let mut conn = PgConnection::connect(url).await.expect("a connection");
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut conn).await.expect("statements");
    });
}

/// Returns how many budgets a connection sees that names no tenant.
fn budgets_seen(url: &str) -> i64 {
    runtime().block_on(async {
        let mut conn = PgConnection::connect(url).await.expect("a connection");
        sqlx::query_scalar("SELECT count(*) FROM bursar.scopes").fetch_one(&mut conn).await.expect("a count")
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn every_command_works_behind_row_level_security() {
    // Durable, so that `bursar doctor` has nothing else to report.
    let cluster = Cluster::start(true);
    let own = Installation::new(&cluster);
    own.run(&["migrate"]).exits(0);
    own.run(&["budget", "define", "team", "--limit", "1000:lifetime"]).exits(0);
    own.run(&["hold", "place", "team=40"]).exits(0);
    own.run(&["--tenant", "other", "budget", "define", "team", "--limit", "7:lifetime"]).exits(0);

    // The policies do not apply to the owner yet, so that servers without the setting go on.
    let before = own.run(&["doctor"]).exits(0);
    assert!(before.out.contains("row-level security on, as the role bursar_app"), "{}", before.out);
    assert_eq!(budgets_seen(&own.database), 2);
    own.run_as_owner(&["budget", "show", "team"]).exits(0);

    own.run(&["migrate", "--force-row-security"]).exits(0);
    assert_eq!((budgets_seen(&own.database), budgets_seen(&own.superuser)), (0, 2), "the owner names no tenant");
    let shown = own.run(&["budget", "show", "team"]).exits(0);
    assert!(shown.out.contains("1000") || shown.out.contains("1,000"), "{}", shown.out);
    let shown = own.run(&["--tenant", "other", "budget", "show", "team"]).exits(0);
    assert!(!shown.out.contains("000"), "{}", shown.out);
    for command in [&["doctor"][..], &["verify"], &["rebuild", "--yes"], &["journal", "verify"], &["sweep"]] {
        own.run(command).exits(0);
    }

    // A backup has the rows of every tenant, and can be restored to an empty database.
    own.run(&["backup", "all.dump"]).exits(0);
    let other = cluster.fresh_database();
    own.dir.run_in(&[("BURSAR_DATABASE", &other)], &["restore", "all.dump"], "").exits(0);
    assert_eq!(budgets_seen(&other), 2);
}
