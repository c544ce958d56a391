//! `bursar migrate`.

use bursar::migration_sql;
use clap::Args;
use serde_json::json;

use crate::args::Global;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Session;
use bursar_server::wire::problem::Problem;

/// How to make or upgrade the tables.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Print the SQL for a tool of your own instead of running it
    #[arg(long)]
    print: bool,
}

/// Does what was asked for.
pub(crate) async fn run(args: Migrate, global: &Global) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    if args.print {
        let sql = migration_sql(global.config.database.url());
        out.data(&json!({ "sql": sql }), || sql.trim_end().to_owned())?;
        return Ok(Exit::Done);
    }
    let session = Session::prepare(global, global.config.database.url()).await?;
    let health = session.bursar()?.health().await;
    session.close().await;
    let health = health?;
    let answer = json!({ "engine": health.engine, "place": health.place, "schema": health.schema });
    out.data(&answer, || format!("{} is ready: schema version {}, {}", health.place, health.schema, health.engine))?;
    Ok(Exit::Done)
}
