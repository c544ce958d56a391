//! `bursar migrate`.

use bursar::migration_sql;
use bursar_wire::problem::Problem;
use clap::Args;
use serde_json::json;

use crate::args::ConfiguredArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::Output;

/// The arguments of `bursar migrate`.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL for your own migration tool instead of running it
    #[arg(long)]
    print: bool,
    /// Make row-level security apply to the owner of the tables too (PostgreSQL). First let every node have the setting postgres.role
    #[arg(long, conflicts_with = "print")]
    force_row_security: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Migrate, global: ConfiguredArgs) -> Result<Exit, Problem> {
    let mut global = global;
    let out = Output::new(global.json);
    if args.print {
        let sql = migration_sql(global.config.database.url());
        out.data(&json!({ "sql": sql }), || sql.trim_end().to_owned())?;
        return Ok(Exit::Done);
    }
    global.config.postgres.force_row_security = args.force_row_security;
    let context = Context::migrate(&global, global.config.database.url()).await?;
    let health = context.bursar()?.health().await;
    context.close().await;
    let health = health?;
    let answer = json!({ "engine": health.engine, "place": health.place, "schema": health.schema });
    out.data(&answer, || format!("{} is ready: schema version {}, {}", health.place, health.schema, health.engine))?;
    Ok(Exit::Done)
}
