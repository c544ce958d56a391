//! `bursar namespace`.

use bursar::bounds::BLOB_BYTES_MAX;
use bursar::{Namespace, Scope, Span};
use bursar_wire::namespace::{NamespaceAnswer, NamespaceBody};
use bursar_wire::problem::Problem;
use clap::{Args, Subcommand};

use crate::args::{PageSize, PastMoment, duration};
use crate::context::Context;
use crate::output::{cell, table};

/// The subcommands of `bursar namespace`.
#[derive(Subcommand)]
pub(crate) enum Namespaces {
    /// List the namespaces that were configured, by name
    List {
        /// Start after this namespace
        #[arg(long, value_name = "NAME")]
        after: Option<Namespace>,
        #[command(flatten)]
        most: PageSize,
    },
    /// Show the rules of a namespace; the default ones if it was never configured
    Show {
        /// Namespace name
        name: Namespace,
        #[command(flatten)]
        moment: PastMoment,
    },
    /// Change rules of a namespace; rules not given stay as they are
    Set(Set),
}

/// The rules to change; `none` removes one.
#[derive(Args)]
pub(crate) struct Set {
    /// Namespace name
    name: Namespace,
    /// Maximum size of one blob: 5000000, 100MiB or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes_max: Option<u64>,
    /// Scope that stored bytes are charged to; its budget has lifetime limits only
    #[arg(long, value_name = "SCOPE|none", value_parser = scope_or_none)]
    charge: Option<NewRule<Scope>>,
    /// Time for which a deleted blob can be restored
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Span>,
    /// Time for which a blob without references is kept
    #[arg(long, value_name = "DURATION|none", value_parser = duration_or_none)]
    unreferenced: Option<NewRule<Span>>,
    /// Reason, recorded in the journal
    #[arg(long)]
    reason: Option<String>,
}

/// A new value, or `none` to remove the rule.
#[derive(Clone, Debug)]
pub(crate) struct NewRule<T>(Option<T>);

fn scope_or_none(text: &str) -> Result<NewRule<Scope>, bursar::Invalid> {
    match text {
        "none" => Ok(NewRule(None)),
        name => Scope::new(name).map(|scope| NewRule(Some(scope))),
    }
}

fn duration_or_none(text: &str) -> Result<NewRule<Span>, String> {
    match text {
        "none" => Ok(NewRule(None)),
        text => duration(text).map(|span| NewRule(Some(span))).map_err(|problem| format!("{problem}, or none")),
    }
}

/// The units of sizes, the largest first.
const SIZES: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Parses a size in bytes: `5000000`, `100MiB`.
fn size(text: &str) -> Result<u64, String> {
    let unit = SIZES.iter().find_map(|(name, bits)| Some((text.strip_suffix(name)?, *bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    let bytes = number.trim_end().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << bits));
    bytes
        .filter(|bytes| (1..=BLOB_BYTES_MAX).contains(bytes))
        .ok_or_else(|| format!("must be a number of bytes from 1 to {BLOB_BYTES_MAX}, such as 5000000, 100MiB or 2GiB"))
}

/// Shows a size in the largest unit that divides it.
fn shown_size(bytes: u64) -> String {
    match SIZES.iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits)) {
        Some((name, bits)) => format!("{} {name}", bytes >> bits),
        None => format!("{bytes} bytes"),
    }
}

/// Runs the command.
pub(crate) async fn run(args: Namespaces, context: &Context) -> Result<(), Problem> {
    match args {
        Namespaces::List { after, most } => list(after.as_ref(), usize::from(most), context).await,
        Namespaces::Show { name, moment } => {
            show(&*context.client.namespaces().show_at(&name, moment.get()).await?, context)
        }
        Namespaces::Set(set) => change(set, context).await,
    }
}

async fn change(set: Set, context: &Context) -> Result<(), Problem> {
    // The other rules stay as they are. If-Match keeps this from overwriting a concurrent change.
    let current = context.client.namespaces().show(&set.name).await?;
    let client = current.etag().map_or_else(|| context.client.clone(), |etag| context.client.if_match(etag));
    let mut body = NamespaceBody { reason: set.reason, ..current.into_inner().config };
    if let Some(most) = set.bytes_max {
        body.bytes_max = most;
    }
    if let Some(NewRule(charge)) = set.charge {
        body.charge = charge;
    }
    if let Some(grace) = set.grace {
        body.grace_ms = grace.millis();
    }
    if let Some(NewRule(unreferenced)) = set.unreferenced {
        body.unreferenced_ms = unreferenced.map(Span::millis);
    }
    show(&*client.namespaces().define(&set.name, &body).await?, context)
}

async fn list(after: Option<&Namespace>, most: usize, context: &Context) -> Result<(), Problem> {
    let page = context.client.namespaces().list(after.map(Namespace::as_str), most).await?;
    context.out.data(&*page, || {
        let rows = page.items.iter().map(|namespace| {
            let NamespaceAnswer { name, config } = namespace;
            vec![
                name.to_string(),
                shown_size(config.bytes_max),
                cell(config.charge.as_ref()),
                span(config.grace_ms).to_string(),
                cell(config.unreferenced_ms.map(span)),
            ]
        });
        table(&["NAMESPACE", "BLOBS UP TO", "CHARGED TO", "GRACE", "UNREFERENCED"], &rows.collect::<Vec<_>>())
    })?;
    context.out.next_page(page.next.as_deref());
    Ok(())
}

fn span(millis: i64) -> Span {
    Span::from_millis(millis.unsigned_abs())
}

fn show(namespace: &NamespaceAnswer, context: &Context) -> Result<(), Problem> {
    context.out.data(namespace, || {
        let NamespaceAnswer { name, config } = namespace;
        let unreferenced = config.unreferenced_ms.map(|kept| format!("kept {}", span(kept)));
        [
            format!("namespace     {name}"),
            format!("blobs up to   {}", shown_size(config.bytes_max)),
            format!("charged to    {}", cell(config.charge.as_ref())),
            format!("deleted       restored for up to {}", span(config.grace_ms)),
            format!("unreferenced  {}", unreferenced.unwrap_or_else(|| "kept until deleted".to_owned())),
        ]
        .join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_shown() {
        for (text, bytes, shown) in [
            ("5000000", 5_000_000, "5000000 bytes"),
            ("100MiB", 100 << 20, "100 MiB"),
            ("2 GiB", 2 << 30, "2 GiB"),
            ("5TiB", 5 << 40, "5 TiB"),
            ("1536KiB", 1_536 << 10, "1536 KiB"),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
            assert_eq!(shown_size(bytes), shown, "{text}");
        }
        for text in ["", "0", "MiB", "-1", "1.5GiB", "6TiB", "99999999999999999999", "99999999999TiB", "10MB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
