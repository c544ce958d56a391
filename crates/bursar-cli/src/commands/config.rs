//! `bursar config`: what is set, and by what.

use bursar::meter::MeterSettings;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::args::Asked;
use crate::config::{Flags, load, markdown, settings};
use crate::exit::Exit;
use crate::output::{Output, cell, table};
use bursar_server::wire::problem::Problem;

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Configs {
    /// Check the configuration, and show each value and where it came from; secrets are not shown
    Check(Check),
    /// Print every setting there is, as a table in Markdown
    Table,
}

/// The flags that `bursar serve` would be started with.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    flags: Flags,
}

/// A setting as it is told.
#[derive(Serialize)]
struct Told {
    setting: &'static str,
    /// Of a secret, that it is set; `null` where nothing is.
    value: Option<String>,
    from: String,
    secret: bool,
}

/// Does what was asked for.
pub(crate) fn run(args: Configs, asked: &Asked) -> Result<Exit, Problem> {
    let out = Output::new(asked.json);
    match args {
        Configs::Check(args) => check(args, asked, out)?,
        Configs::Table => {
            out.data(&serde_json::json!({ "markdown": markdown() }), || markdown().trim_end().to_owned())?;
        }
    }
    Ok(Exit::Done)
}

fn check(args: Check, asked: &Asked, out: Output) -> Result<(), Problem> {
    let flags = args.flags.with("database", asked.database.as_deref());
    let mut loaded = load(asked.config.as_deref(), &flags)?;
    loaded.config.server()?;
    let mut told: Vec<Told> = settings()
        .iter()
        .zip(&loaded.origins)
        .map(|(setting, origin)| Told {
            setting: setting.name,
            value: setting.kind.show(&mut loaded.config),
            from: origin.to_string(),
            secret: setting.kind.is_secret(),
        })
        .collect();
    told.push(Told {
        setting: "meter",
        value: loaded.config.meter.as_ref().map(quota),
        from: loaded.meter_from.to_string(),
        secret: false,
    });
    for name in &loaded.unknown {
        out.note(&format!("warning: {name} is set in the environment and is not a setting"));
    }
    if !loaded.config.listen.ip().is_loopback() && loaded.config.operator_token.is_none() {
        let listen = loaded.config.listen;
        out.note(&format!("warning: {listen} can be reached from outside: without operator_token the server starts only where the database has an operator's token"));
    }
    out.data(&serde_json::json!({ "settings": told }), || {
        let row = |told: &Told| vec![told.setting.to_owned(), cell(told.value.as_ref()), told.from.clone()];
        table(&["SETTING", "VALUE", "FROM"], &told.iter().map(row).collect::<Vec<_>>())
    })
}

/// What each caller has, as `--limit` of a budget takes it.
fn quota(meter: &MeterSettings) -> String {
    let limits: Vec<String> = meter.quota.iter().map(|limit| format!("{}:{}", limit.amount, limit.window)).collect();
    limits.join(", ")
}
