//! `bursar dev --tour`: budgets, grants, commands, holds and the journal, step by step.

use std::path::Path;
use std::time::Duration;

use bursar::{Budget, Bursar, CommandBuilder, Error, JobSpec, Limit, Payload, Receipt, Scope, Window};
use bursar_server::convert;
use bursar_wire::budget::BudgetAnswer;
use bursar_wire::event::EventAnswer;
use bursar_wire::hold::SettledAnswer;
use bursar_wire::problem::{Kind, Problem};
use serde_json::{Map, Value, json};

use super::{REASON, may_write_to, screen};
use crate::args::ConfiguredArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Output, table};
use crate::units::Units;
use crate::view::{balances, charges, events, report};

/// Runs the tour on a database in `data`, and exits.
pub(crate) async fn run(global: &ConfiguredArgs, data: &Path, url: &str) -> Result<Exit, Problem> {
    let context = Context::migrate(global, url).await?;
    let mut demo = Demo { out: context.out, steps: 0, results: Map::new(), units: Units::default() };
    let verified = run_steps(&mut demo, &context, url).await;
    context.close().await;
    let verified = verified?;
    demo.out.data(&Value::Object(demo.results), || format!("The database stays in {}.", data.display()))?;
    Ok(if verified { Exit::Done } else { Exit::Failed })
}

/// A running demo: printed step by step for people, or at the end as one JSON object.
struct Demo {
    out: Output,
    steps: usize,
    results: Map<String, Value>,
    /// The units of the budgets, to show amounts in.
    units: Units,
}

impl Demo {
    /// Prints the heading of a step.
    fn step(&mut self, title: &str, about: &str) -> Result<(), Problem> {
        self.steps += 1;
        self.out.text(&format!("\n{}. {title}\n   {about}\n", self.steps))
    }

    /// Records and prints a result.
    fn result(&mut self, name: &str, value: Value, human: &str) -> Result<(), Problem> {
        self.results.insert(name.to_owned(), value);
        let indented: Vec<String> = human.lines().map(|line| format!("     {line}")).collect();
        self.out.text(&indented.join("\n"))
    }
}

/// The names that one run uses. Each run has its own, so that a folder can be reused.
struct Names {
    org: Scope,
    team: Scope,
    agent: Scope,
    session: String,
}

impl Names {
    fn of(run: u64) -> Result<Names, Error> {
        Ok(Names {
            org: Scope::new(format!("org:acme-{run}"))?,
            team: Scope::new(format!("team:acme-{run}/research"))?,
            agent: Scope::new(format!("agent:acme-{run}/scout"))?,
            session: format!("session-{run}"),
        })
    }
}

/// $0.40. A dollar has 6 decimals.
const HELD: i64 = 400_000;
const ACTUAL: i64 = 320_000;
const TOO_MUCH: i64 = 3_000_000;

/// Runs all steps; returns whether the database verified.
async fn run_steps(demo: &mut Demo, context: &Context, url: &str) -> Result<bool, Problem> {
    let bursar = &context.bursar()?.because(REASON);
    if !may_write_to(bursar).await? {
        let again = format!("{} dev --tour --data bursar-demo", screen::program());
        let detail = format!("{url} has data that the demo did not write; nothing was changed; run `{again}` instead");
        return Err(Problem::new(Kind::Conflict, detail));
    }
    let before = bursar.health().await?.position;
    let names = Names::of(before + 1)?;
    demo.results.insert("database".into(), json!(url));
    demo.out.text(&format!(
        "Bursar limits what software spends. A program holds budget, redeems a one-time grant and enqueues a job in one\n\
         database transaction, and settles the hold with the actual cost. A charge above a limit is never admitted.\n\
         This demo runs on the database {url}."
    ))?;
    budgets(demo, bursar, &names).await?;
    let token = grant(demo, bursar, &names).await?;
    let receipt = submit(demo, bursar, &names, &token).await?;
    settle(demo, bursar, &names, &receipt).await?;
    refused(demo, bursar, &names).await?;
    replay(demo, bursar, &names, &token).await?;
    let verified = journal(demo, bursar, before).await?;
    next_steps(demo, context, &names, url)?;
    Ok(verified)
}

async fn budgets(demo: &mut Demo, bursar: &Bursar, names: &Names) -> Result<(), Problem> {
    demo.step(
        "Budgets",
        "A charge to the agent counts against three budgets at once: its own, its team's and its organization's.",
    )?;
    let hour = Window::rolling(Duration::from_secs(3_600))?;
    let of = |limits: Vec<Limit>| Budget { unit: "usd".into(), thresholds: vec![80, 100], ..Budget::new(limits) };
    let month = "month".parse().map_err(Error::from)?;
    let ledger = bursar.ledger();
    ledger.define(&names.org, of(vec![Limit::new(50_000_000, month)])).await?;
    ledger.define(&names.team, of(vec![Limit::new(2_000_000, hour)]).under(names.org.clone())).await?;
    let bucket = Limit::bucket(500_000, 10_000, Duration::from_secs(3_600))?;
    ledger.define(&names.agent, of(vec![bucket]).under(names.team.clone())).await?;
    show(demo, bursar, names, "budgets").await?;
    demo.out.text(
        "\n     The windows are a calendar month, the last hour, and a bucket of $0.50 that refills by $0.01 per hour.",
    )
}

async fn grant(demo: &mut Demo, bursar: &Bursar, names: &Names) -> Result<String, Problem> {
    demo.step("A grant", "A single-use token for one upload, valid for ten minutes. Bursar stores only its digest.")?;
    let payload = Payload::of(&json!({ "assetId": "asset-42" })).map_err(Error::from)?;
    let ttl = Duration::from_secs(600);
    let minted = bursar.grants().mint("upload", &names.session, payload, ttl).await?;
    let token = minted.token.unwrap_or_default();
    // Even a demo prints only a prefix of a secret.
    let shown: String = token.chars().take(12).collect();
    let human = format!("{} permits upload for {}\ntoken {shown}… (shown only once)", minted.id, names.session);
    demo.result("grant", json!({ "id": minted.id, "expires_at": minted.expires_at.to_string() }), &human)?;
    Ok(token)
}

/// Builds the command of the demo: a hold, a redemption and a job.
fn command(bursar: &Bursar, names: &Names, token: &str) -> Result<CommandBuilder, Error> {
    let plain = JobSpec::new("media".try_into()?, "video.generate".try_into()?, Payload::default());
    let job = JobSpec { payload_from_grant: true, ..plain };
    let command = bursar.command().charge(&names.agent, HELD).hold_for(Duration::from_secs(120));
    Ok(command.redeem("upload", &names.session, token).job(job).key(format!("make-video/{}", names.session)))
}

async fn submit(demo: &mut Demo, bursar: &Bursar, names: &Names, token: &str) -> Result<Receipt, Problem> {
    demo.step("A command", "Hold $0.40, redeem the grant and enqueue the job that uses it, in one transaction.")?;
    let receipt = command(bursar, names, token)?.submit().await?;
    let answer = convert::command_answer(&receipt, false);
    demo.result("command", to_value(&answer)?, &charges::command(&answer, &demo.units))?;
    demo.out.text("\n     Now $0.40 is held on all three budgets.\n")?;
    show(demo, bursar, names, "balances_held").await?;
    Ok(receipt)
}

async fn settle(demo: &mut Demo, bursar: &Bursar, names: &Names, receipt: &Receipt) -> Result<(), Problem> {
    demo.step("The actual cost", "The video cost $0.32. Committing that amount frees the rest of the hold.")?;
    let Some(hold) = &receipt.done.hold else { return Err(bug("the command placed no hold")) };
    let settled = bursar.ledger().commit(hold.id, ACTUAL).await?;
    let settled = SettledAnswer::from(&settled);
    demo.result("settled", to_value(&settled)?, &charges::settled(&settled, &demo.units))?;
    demo.out.text("")?;
    show(demo, bursar, names, "balances_settled").await
}

async fn refused(demo: &mut Demo, bursar: &Bursar, names: &Names) -> Result<(), Problem> {
    demo.step(
        "A refusal",
        "$3.00 exceeds two of the three limits. The refusal names both of them, and nothing is changed.",
    )?;
    match bursar.command().charge(&names.agent, TOO_MUCH).hold().submit().await {
        Ok(_) => Err(bug("a charge above two limits was admitted")),
        Err(error) => {
            let problem = Problem::from(error);
            if problem.violations.is_empty() {
                return Err(problem);
            }
            let reasons = demo.units.reasons(&problem);
            let lines: Vec<String> = reasons.iter().map(|reason| format!("refused: {reason}")).collect();
            demo.result("refused", to_value(&problem)?, &lines.join("\n"))
        }
    }
}

async fn replay(demo: &mut Demo, bursar: &Bursar, names: &Names, token: &str) -> Result<(), Problem> {
    demo.step(
        "A retry",
        "A caller that lost the answer repeats the command with the same idempotency key. It gets the first answer.",
    )?;
    let receipt = command(bursar, names, token)?.submit().await?;
    let jobs: Vec<String> = receipt.done.jobs.iter().map(|job| job.id.to_string()).collect();
    let human =
        format!("{} is the first answer (replayed: {}), job {}", receipt.command, receipt.replayed, jobs.join(", "));
    demo.result("replayed", to_value(&convert::command_answer(&receipt, false))?, &human)?;
    match bursar.grants().redeem("upload", &names.session, token).await {
        Ok(_) => Err(bug("a used token was accepted again")),
        Err(error) => {
            let human = format!("Without the key, the token is not accepted again: {error}");
            demo.result("redeemed_again", to_value(&Problem::from(error))?, &human)
        }
    }
}

async fn journal(demo: &mut Demo, bursar: &Bursar, before: u64) -> Result<bool, Problem> {
    demo.step("The journal", "Each change wrote its event in the same transaction. A refusal writes none.")?;
    let (events, _) = bursar.journal().read(before, 100).await?;
    let answers: Vec<EventAnswer> = events.iter().map(convert::event_answer).collect();
    demo.result("journal", to_value(&answers)?, &events::table_of(&answers, &demo.units))?;
    demo.step(
        "Verification",
        "Recompute every balance from its holds and postings, and compare it with the stored one.",
    )?;
    let report = bursar.verify().await?;
    let report = convert::verify_answer(&report);
    demo.result("verify", to_value(&report)?, &report::describe(&report))?;
    Ok(report.ok)
}

fn next_steps(demo: &mut Demo, context: &Context, names: &Names, url: &str) -> Result<(), Problem> {
    let Names { org, agent, .. } = names;
    let bursar = screen::command_on(url, &context.tenant);
    let usd = |amount: &str| format!("{agent}={amount}usd");
    let examples = [
        (format!("budget show {agent}"), "# also shows what its parents have left"),
        (format!("hold place {} --ttl 10m", usd("0.05")), "# then: hold commit ID --actual 0.042usd"),
        ("post requests=1 --limit 3:day".to_owned(), "# needs no budget; the fourth is refused"),
        (format!("job enqueue media video.generate --charge {}", usd("0.05")), "# the end of the job settles its hold"),
        (format!("budget freeze {agent}"), "# then a charge is refused"),
        (format!("budget show {org}"), ""),
        (format!("journal list --stream scope:{agent}"), ""),
        ("doctor".to_owned(), ""),
    ];
    let width = examples.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let lines =
        examples.map(|(command, comment)| format!("   {bursar} {command:<width$}  {comment}").trim_end().to_owned());
    demo.out.text(&format!("\nTry next:\n{}\nAdd --json for JSON, or --help for all options.", lines.join("\n")))
}

async fn show(demo: &mut Demo, bursar: &Bursar, names: &Names, name: &str) -> Result<(), Problem> {
    let mut answers: Vec<BudgetAnswer> = Vec::new();
    for scope in [&names.org, &names.team, &names.agent] {
        answers.extend(bursar.ledger().budget(scope).await?.as_ref().map(convert::budget_answer));
    }
    answers.iter().for_each(|budget| demo.units.put(budget));
    let rows = answers
        .iter()
        .flat_map(|budget| balances::limited(budget).map(|balance| [vec![budget.scope.to_string()], balance].concat()));
    let human = table(&["SCOPE", "WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING"], &rows.collect::<Vec<_>>());
    demo.result(name, to_value(&answers)?, &human)
}

fn to_value(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| bug(&format!("an answer cannot be written as JSON: {error}")))
}

fn bug(what: &str) -> Problem {
    Problem::new(Kind::Internal, format!("{what}; this is a bug in bursar"))
}
