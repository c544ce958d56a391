//! The examples that the help of each command ends with.

use clap::Command;

/// The examples of each command. `$HOLD`, `$JOB`, `$GRANT`, `$BLOB` and `$TOKEN` stand for what an earlier command printed.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("serve", &["bursar serve", "bursar --database postgres://localhost/bursar serve --listen 0.0.0.0:7440"]),
    ("dev", &["bursar dev"]),
    ("config check", &["bursar config check", "bursar --config /etc/bursar.toml config check"]),
    ("config table", &["bursar config table"]),
    ("migrate", &["bursar migrate", "bursar --database postgres://localhost/bursar migrate", "bursar migrate --print"]),
    ("backup", &["bursar backup nightly.db"]),
    ("restore", &["bursar --database sqlite://restored.db restore nightly.db"]),
    (
        "move",
        &[
            "bursar move --from sqlite://bursar-data/bursar.db --to postgres://localhost/bursar",
            "bursar move --follow --from sqlite://bursar-data/bursar.db --to postgres://localhost/bursar",
        ],
    ),
    (
        "budget define",
        &[
            "bursar budget define org:acme --limit 25usd:month@Europe/Berlin --threshold 80",
            "bursar budget define agent:scout --parent org:acme --limit 2usd:rolling:1h --ttl-max 30m",
            "bursar budget define model:opus --unit tokens --limit 500k:bucket:10k/m",
        ],
    ),
    ("budget show", &["bursar budget show org:acme", "bursar budget show org:acme --at 2026-11-15T10:00:00Z"]),
    ("budget list", &["bursar budget list", "bursar budget list --prefix agent: --most 20"]),
    ("budget history", &["bursar budget history org:acme --most 20"]),
    ("budget freeze", &["bursar budget freeze agent:scout --reason 'runaway loop'"]),
    ("budget unfreeze", &["bursar budget unfreeze agent:scout"]),
    ("budget delete", &["bursar budget delete agent:scout --reason 'agent retired'"]),
    ("budget credit", &["bursar budget credit org:acme 5usd --reason refund"]),
    ("budget spent", &["bursar budget spent org:acme --from 2026-11-01T00:00:00Z"]),
    (
        "hold place",
        &[
            "bursar hold place agent:scout=0.50usd --ttl 10m",
            "bursar hold place agent:scout=50k --key order-7",
            "bursar hold place agent:scout=0.50usd --on-expiry-charge 0.20usd",
        ],
    ),
    ("hold show", &["bursar hold show $HOLD"]),
    ("hold list", &["bursar hold list agent:scout"]),
    ("hold commit", &["bursar hold commit $HOLD --actual 0.42usd"]),
    ("hold release", &["bursar hold release $HOLD --reason cancelled"]),
    ("hold extend", &["bursar hold extend $HOLD --by 5m"]),
    ("hold history", &["bursar hold history $HOLD"]),
    ("post", &["bursar post agent:scout=0.10usd", "bursar post agent:scout=1.5k --key order-8"]),
    ("grant mint", &["bursar grant mint upload user:7 --ttl 15m --payload '{\"path\":\"a.png\"}'"]),
    ("grant redeem", &["bursar grant redeem upload user:7 $TOKEN"]),
    ("grant revoke", &["bursar grant revoke $GRANT --reason 'sent to the wrong user'"]),
    ("grant show", &["bursar grant show $GRANT"]),
    ("grant list", &["bursar grant list --most 20"]),
    ("grant erase", &["bursar grant erase $GRANT"]),
    ("grant purge", &["bursar grant purge"]),
    (
        "command submit",
        &["bursar command submit order.json --key order-7", "bursar command submit - --dry-run < order.json"],
    ),
    (
        "job enqueue",
        &[
            "bursar job enqueue media video.encode --payload '{\"id\":7}' --delay 10m",
            "bursar job enqueue media video.encode --charge agent:scout=0.50usd",
            "bursar job enqueue media video.encode --blob $BLOB",
            "bursar job enqueue --file jobs.json",
        ],
    ),
    ("job show", &["bursar job show $JOB", "bursar job show $JOB --at 1200"]),
    ("job list", &["bursar job list --queue media --state queued", "bursar job list --kind 'video.*' --json"]),
    ("job events", &["bursar job events $JOB"]),
    ("job cancel", &["bursar job cancel $JOB", "bursar job cancel --queue media --state queued --dry-run"]),
    ("job retry", &["bursar job retry $JOB", "bursar job retry --queue media --state dead --yes"]),
    ("job edit", &["bursar job edit $JOB --priority 10", "bursar job edit --queue media --delay 1h --yes"]),
    ("job move", &["bursar job move $JOB --to media-slow"]),
    ("job discard", &["bursar job discard $JOB"]),
    ("job erase", &["bursar job erase $JOB", "bursar job erase --tag customer:7 --reason 'they asked for it' --yes"]),
    ("job costs", &["bursar job costs --from 2026-11-01 --to 2026-11-30"]),
    ("job held", &["bursar job held --queue media"]),
    (
        "job lease",
        &["bursar job lease --queue media --wait 20s", "bursar job lease --queue media --capacity 5 --lease 30s"],
    ),
    ("job heartbeat", &["bursar job heartbeat $JOB --fence 1"]),
    (
        "job progress",
        &["bursar job progress $JOB --fence 1 --percent 40 --message rendering --checkpoint '{\"frame\":1200}'"],
    ),
    ("job emit", &["bursar job emit $JOB --fence 1 preview.ready --data '{\"frame\":1200}'"]),
    ("job complete", &["bursar job complete $JOB --fence 1 --usage 0.42usd --result '{\"ok\":true}'"]),
    ("job fail", &["bursar job fail $JOB --fence 1 --error timeout --retry-after 5m"]),
    ("job snooze", &["bursar job snooze $JOB --fence 1 --delay 10m"]),
    ("job return", &["bursar job return $JOB --fence 1"]),
    ("queue list", &["bursar queue list"]),
    ("queue show", &["bursar queue show media --minutes 5"]),
    (
        "queue set",
        &[
            "bursar queue set media --concurrency 20 --rate 100/s --lease 30s",
            "bursar queue set media --deadline none --keep-succeeded 6h",
        ],
    ),
    ("queue pause", &["bursar queue pause media --reason 'provider is down'"]),
    ("queue resume", &["bursar queue resume media"]),
    (
        "schedule set",
        &["bursar schedule set nightly --cron '0 3 * * *' --zone Europe/Berlin --queue reports --kind report.daily"],
    ),
    ("schedule show", &["bursar schedule show nightly"]),
    ("schedule list", &["bursar schedule list"]),
    ("schedule pause", &["bursar schedule pause nightly"]),
    ("schedule resume", &["bursar schedule resume nightly"]),
    ("schedule run", &["bursar schedule run nightly"]),
    ("schedule remove", &["bursar schedule remove nightly"]),
    ("dead list", &["bursar dead list --queue media"]),
    ("dead groups", &["bursar dead groups"]),
    ("dead show", &["bursar dead show $JOB"]),
    ("dead retry", &["bursar dead retry $JOB", "bursar dead retry --queue media --dry-run"]),
    ("dead discard", &["bursar dead discard --kind 'video.*' --yes"]),
    ("dead move", &["bursar dead move --queue media --to media-slow --yes"]),
    ("blob put", &["bursar blob put cat.png --namespace media", "bursar blob put - --filename photos.tar"]),
    ("blob get", &["bursar blob get $BLOB", "bursar blob get $BLOB --out -"]),
    ("blob link", &["bursar blob link $BLOB --expires-in 1d"]),
    ("blob gc", &["bursar blob gc", "bursar blob gc --yes"]),
    ("blob orphans", &["bursar blob orphans"]),
    ("blob move", &["bursar blob move --to s3"]),
    ("blob list", &["bursar blob list --namespace media --newest", "bursar blob list --state deleted"]),
    ("blob show", &["bursar blob show $BLOB"]),
    ("blob delete", &["bursar blob delete $BLOB --reason 'replaced'"]),
    ("blob restore", &["bursar blob restore $BLOB"]),
    ("blob reference", &["bursar blob reference $BLOB post:42"]),
    ("blob release", &["bursar blob release $BLOB post:42"]),
    ("namespace list", &["bursar namespace list"]),
    ("namespace show", &["bursar namespace show media"]),
    (
        "namespace set",
        &[
            "bursar namespace set media --bytes-max 100MiB --unreferenced 30d",
            "bursar namespace set media --charge disk:acme",
        ],
    ),
    (
        "journal list",
        &["bursar journal list --kind budget --most 20", "bursar journal list --stream scope:org:acme --after 1000"],
    ),
    ("journal query", &["bursar journal query"]),
    ("journal archive", &["bursar journal archive --dry-run", "bursar journal archive"]),
    ("journal unarchive", &["bursar journal unarchive"]),
    ("journal segments", &["bursar journal segments"]),
    ("journal verify", &["bursar journal verify"]),
    ("worker create", &["bursar worker create encoder --queue 'media-*' --kind 'video.*' --expires-in 30d"]),
    ("worker list", &["bursar worker list"]),
    ("worker show", &["bursar worker show encoder"]),
    ("worker rotate", &["bursar worker rotate encoder --overlap 1h"]),
    ("worker revoke", &["bursar worker revoke encoder"]),
    ("token create", &["bursar token create billing --role user --expires-in 90d"]),
    ("token list", &["bursar token list"]),
    ("token show", &["bursar token show billing"]),
    ("token rotate", &["bursar token rotate billing --overlap 1h"]),
    ("token revoke", &["bursar token revoke billing"]),
    ("meter show", &["bursar meter show", "bursar meter show alice"]),
    (
        "meter check",
        &["bursar meter check alice 10", "bursar meter check alice --method POST --path /claims --payload-bytes 2048"],
    ),
    ("meter limit", &["bursar meter limit alice 5000", "bursar meter limit alice --limit 100:bucket:10/s"]),
    ("top", &["bursar top", "bursar top --once --json"]),
    ("verify", &["bursar verify"]),
    ("rebuild", &["bursar rebuild"]),
    ("sweep", &["bursar sweep --most 1000"]),
    ("doctor", &["bursar doctor", "bursar --server http://127.0.0.1:7440 doctor", "bursar doctor --fix"]),
    ("openapi", &["bursar openapi > openapi.json"]),
    ("bench", &["bursar bench", "bursar bench hold --seconds 5 --callers 64"]),
    ("completions", &["bursar completions bash > ~/.local/share/bash-completion/completions/bursar"]),
];

/// Adds the examples to the help of every command.
pub(crate) fn add(command: Command) -> Command {
    add_below(command, "")
}

fn add_below(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|child| child.get_name().to_owned()).collect();
    if names.is_empty() {
        return with_examples(command, path);
    }
    names.into_iter().fold(command, |command, name| {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |child| add_below(child, &path))
    })
}

fn with_examples(command: Command, path: &str) -> Command {
    let Some((_, examples)) = EXAMPLES.iter().find(|(name, _)| *name == path) else { return command };
    let noun = if examples.len() == 1 { "Example" } else { "Examples" };
    let lines = format!("{noun}:\n  {}", examples.join("\n  "));
    let text = match command.get_after_help() {
        Some(help) => format!("{help}\n\n{lines}"),
        None => lines,
    };
    command.after_help(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// Splits a line as a shell would: by spaces outside of single quotes. Redirections end it.
    fn words(line: &str) -> Vec<String> {
        let id = "01j9zq3v4w5x6y7z8abcdefghj";
        let line = line.split(" > ").next().unwrap().split(" < ").next().unwrap();
        let (mut words, mut quoted) = (vec![String::new()], false);
        for sign in line.chars() {
            match sign {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                sign => words.last_mut().unwrap().push(sign),
            }
        }
        let value = |word: &String| match word.as_str() {
            "$HOLD" => format!("hold_{id}"),
            "$JOB" => format!("job_{id}"),
            "$GRANT" => format!("grant_{id}"),
            "$BLOB" => format!("blob_{id}"),
            word => word.to_owned(),
        };
        words.iter().map(value).collect()
    }

    #[test]
    fn every_example_can_be_typed() {
        for (path, examples) in EXAMPLES {
            for example in *examples {
                let parsed = Cli::command().try_get_matches_from(words(example));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
                assert!(example.contains(path), "{example} is not an example of {path}");
            }
        }
    }

    #[test]
    fn commands_that_the_dashboard_suggests_exist() {
        for command in bursar_dashboard::SUGGESTED_COMMANDS {
            let parsed = Cli::command().try_get_matches_from(words(command));
            assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &Command, path: &str) {
            if !command.has_subcommands() {
                assert!(EXAMPLES.iter().any(|(name, _)| *name == path), "{path} has no example");
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "the help of {path} has no example");
            }
            for child in command.get_subcommands() {
                check(child, format!("{path} {}", child.get_name()).trim());
            }
        }
        check(&add(Cli::command()), "");
    }
}
