//! `bursar openapi`.

use bursar_wire::problem::Problem;
use clap::Args;

use crate::args::GlobalArgs;
use crate::exit::Exit;
use crate::output::Output;

/// The format of the document.
#[derive(Args)]
pub(crate) struct Openapi {
    /// Print a Markdown reference instead of JSON
    #[arg(long)]
    markdown: bool,
}

/// Prints the document that the server serves at `/v1/openapi.json`, or a reference made from it.
pub(crate) fn run(args: &Openapi, global: &GlobalArgs) -> Result<Exit, Problem> {
    let out = Output::new(global.json && !args.markdown);
    if args.markdown {
        out.text(bursar_server::reference().trim_end())?;
    } else {
        let document = bursar_server::document();
        out.data(&document, || format!("{document:#}"))?;
    }
    Ok(Exit::Done)
}
