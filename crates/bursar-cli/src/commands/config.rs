//! `bursar config`.

use bursar_wire::problem::Problem;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::args::GlobalArgs;
use crate::config::{Flags, load, markdown, settings};
use crate::exit::Exit;
use crate::output::{Output, cell, table};

/// The subcommands of `bursar config`.
#[derive(Subcommand)]
pub(crate) enum Configs {
    /// Check the configuration and show each value and its origin; secrets are not shown
    Check(Check),
    /// Print all settings as a Markdown table
    Table,
}

/// The flags that `bursar serve` takes.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    flags: Flags,
}

/// A setting, its value and its origin.
#[derive(Serialize)]
struct SettingAnswer {
    setting: &'static str,
    /// `(secret)` for a secret that is set; `null` if nothing is set.
    value: Option<String>,
    from: String,
    secret: bool,
}

/// Runs the command.
pub(crate) fn run(args: Configs, global: &GlobalArgs) -> Result<Exit, Problem> {
    let out = Output::new(global.json);
    match args {
        Configs::Check(args) => check(args, global, out)?,
        Configs::Table => {
            out.data(&serde_json::json!({ "markdown": markdown() }), || markdown().trim_end().to_owned())?;
        }
    }
    Ok(Exit::Done)
}

fn check(args: Check, global: &GlobalArgs, out: Output) -> Result<(), Problem> {
    let flags = args.flags.with("database", global.database.as_deref());
    let mut loaded = load(global.config.as_deref(), &flags)?;
    loaded.config.server(loaded.config.database.url())?;
    let shown: Vec<SettingAnswer> = settings()
        .iter()
        .zip(&loaded.origins)
        .map(|(setting, origin)| SettingAnswer {
            setting: setting.name,
            value: setting.kind.show(&mut loaded.config),
            from: origin.to_string(),
            secret: setting.kind.is_secret(),
        })
        .collect();
    for name in &loaded.unknown {
        out.note(&format!("warning: {name} is set in the environment but is not a setting; it is ignored"));
    }
    for name in &loaded.ignored {
        out.note(&format!("warning: the value of {name} is invalid; it is ignored"));
    }
    if !loaded.config.listen.ip().is_loopback() && loaded.config.operator_token.is_none() {
        let listen = loaded.config.listen;
        out.note(&format!("warning: {listen} is reachable from other machines and operator_token is not set: the server starts only if the database already has an operator token"));
    }
    out.data(&serde_json::json!({ "settings": shown }), || {
        let row =
            |shown: &SettingAnswer| vec![shown.setting.to_owned(), cell(shown.value.as_ref()), shown.from.clone()];
        table(&["SETTING", "VALUE", "FROM"], &shown.iter().map(row).collect::<Vec<_>>())
    })
}
