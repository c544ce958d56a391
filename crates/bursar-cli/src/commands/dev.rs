//! `bursar dev`: a database in a folder, and a walk through what Bursar does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bursar::{
    Budget, BudgetView, Bursar, CommandBuilder, CredentialClass, Error, JobSpec, Limit, Payload, Receipt, Scope,
    Subject, Tenant, Window,
};
use bursar_server::{Settings, convert};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::args::Global;
use crate::commands::{command, hold, journal, serve, upkeep};
use crate::config::{Config, DATABASE_DEFAULT};
use crate::exit::Exit;
use crate::log;
use crate::output::{Output, cell, table};
use crate::session::{Session, make_folder};
use bursar_server::wire::budget::BudgetAnswer;
use bursar_server::wire::command::CommandAnswer;
use bursar_server::wire::event::EventAnswer;
use bursar_server::wire::hold::SettledAnswer;
use bursar_server::wire::problem::{Kind, Problem};
use bursar_server::wire::report::VerifyAnswer;

/// Where to play.
#[derive(Args)]
pub(crate) struct Dev {
    /// The folder of the database; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "bursar-data")]
    data: PathBuf,
    /// Where to serve it afterwards; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t = Config::default().listen)]
    listen: SocketAddr,
    /// Only show it: serve nothing
    #[arg(long)]
    no_serve: bool,
}

/// Makes the database and tells the story.
pub(crate) async fn run(args: Dev, global: &Global) -> Result<Exit, Problem> {
    make_folder(&args.data)?;
    let url = format!("sqlite://{}", args.data.join("bursar.db").display());
    let session = Session::prepare(global, &url).await?;
    let mut story = Story { out: session.out, steps: 0, told: Map::new() };
    let told = tell(&mut story, &session, &url).await;
    session.close().await;
    let ok = told?;
    story.out.data(&Value::Object(story.told), || "The database is a file, and it stays.".into())?;
    if !ok {
        return Ok(Exit::Failed);
    }
    if args.no_serve {
        return Ok(Exit::Done);
    }
    serve_it(args.listen, &url, story.out).await
}

/// Serves what was shown, with a token for a day.
async fn serve_it(listen: SocketAddr, url: &str, out: Output) -> Result<Exit, Problem> {
    if !listen.ip().is_loopback() {
        let detail = "`bursar dev` listens on this machine only, such as 127.0.0.1:7440: use `bursar serve` elsewhere";
        return Err(Problem::invalid("listen".into(), detail));
    }
    log::start(&Config::default().log);
    let bursar = Bursar::open(url).await?;
    let subject = Subject::new("dev").map_err(Error::from)?;
    let issued =
        bursar.credentials().issue(CredentialClass::Operator, subject, Payload::default(), Some(A_DAY), None).await;
    let token = match issued {
        Ok(issued) => issued.token.unwrap_or_default(),
        Err(error) => {
            bursar.close().await;
            return Err(error.into());
        }
    };
    let served = serve::serve(&bursar, listen, Settings::default(), out, |address| {
        out.note(&format!(
            "\nNOT FOR PRODUCTION: this is a demo on a file, with a token on the screen. Use `bursar serve` in earnest.\n\
             \x20 API page  http://{address}/\n\
             \x20 token     {token}   (the operator's, good for a day)\n\
             \x20 try       curl -H 'Authorization: Bearer {token}' http://{address}/v1/budgets\n\
             End it with Ctrl-C."
        ));
    });
    let served = served.await;
    bursar.close().await;
    served
}

/// What is told, step by step for people and at the end as one object.
struct Story {
    out: Output,
    steps: usize,
    told: Map<String, Value>,
}

impl Story {
    /// Begins a step: what happens, and why.
    fn step(&mut self, title: &str, why: &str) -> Result<(), Problem> {
        self.steps += 1;
        self.out.say(&format!("\n{}. {title}\n   {why}\n", self.steps))
    }

    /// Tells what came of it.
    fn result(&mut self, name: &str, value: Value, human: &str) -> Result<(), Problem> {
        self.told.insert(name.to_owned(), value);
        let indented: Vec<String> = human.lines().map(|line| format!("     {line}")).collect();
        self.out.say(&indented.join("\n"))
    }
}

/// The names of one run. Every run has its own, so that the folder can be used again and again.
struct Cast {
    org: Scope,
    team: Scope,
    agent: Scope,
    session: String,
}

impl Cast {
    fn of(run: u64) -> Result<Cast, Error> {
        Ok(Cast {
            org: Scope::new(format!("org:acme-{run}"))?,
            team: Scope::new(format!("team:acme-{run}/research"))?,
            agent: Scope::new(format!("agent:acme-{run}/scout"))?,
            session: format!("session-{run}"),
        })
    }
}

/// How long the token of a demo is good.
const A_DAY: Duration = Duration::from_secs(86_400);
const HELD: i64 = 400_000;
const ACTUAL: i64 = 320_000;
const TOO_MUCH: i64 = 3_000_000;

async fn tell(story: &mut Story, session: &Session, url: &str) -> Result<bool, Problem> {
    let bursar = &session.bursar()?.because("bursar dev");
    let before = bursar.health().await?.position;
    let cast = Cast::of(before + 1)?;
    story.told.insert("database".into(), json!(url));
    story.out.say(&format!(
        "Bursar keeps the purse for software that spends. A program holds budget, redeems a one-time grant and\n\
         starts durable work in one database transaction, and settles with the real cost. It can never pass a limit.\n\
         This is a walk through it, on the database {url}. Amounts are micro-dollars."
    ))?;
    budgets(story, bursar, &cast).await?;
    let token = grant(story, bursar, &cast).await?;
    let receipt = metered(story, bursar, &cast, &token).await?;
    settle(story, bursar, &cast, &receipt).await?;
    refused(story, bursar, &cast).await?;
    again(story, bursar, &cast, &token).await?;
    let ok = proof(story, bursar, before).await?;
    next(story, session, &cast, url)?;
    Ok(ok)
}

async fn budgets(story: &mut Story, bursar: &Bursar, cast: &Cast) -> Result<(), Problem> {
    story.step(
        "Budgets",
        "An agent spends from its own budget and, in the same breath, from its team's and its org's.",
    )?;
    let hour = Window::rolling(Duration::from_secs(3_600))?;
    let of = |limits: Vec<Limit>| Budget { unit: "micro_usd".into(), thresholds: vec![80, 100], ..Budget::new(limits) };
    let month = "month".parse().map_err(Error::from)?;
    let ledger = bursar.ledger();
    ledger.define(&cast.org, of(vec![Limit::new(50_000_000, month)])).await?;
    ledger.define(&cast.team, of(vec![Limit::new(2_000_000, hour)]).under(cast.org.clone())).await?;
    let bucket = Limit::bucket(500_000, 10_000, Duration::from_secs(3_600))?;
    ledger.define(&cast.agent, of(vec![bucket]).under(cast.team.clone())).await?;
    show(story, bursar, cast, "budgets").await?;
    story.out.say(
        "\n     A month on the calendar, the last hour to the microsecond, and a bucket that regains 10000 an hour.",
    )
}

async fn grant(story: &mut Story, bursar: &Bursar, cast: &Cast) -> Result<String, Problem> {
    story.step(
        "A grant",
        "Permission to use one upload, once, within ten minutes. Only a digest of the token is stored.",
    )?;
    let payload = Payload::of(&json!({ "assetId": "asset-42" })).map_err(Error::from)?;
    let ttl = Duration::from_secs(600);
    let minted = bursar.grants().mint("upload", &cast.session, payload, ttl).await?;
    let token = minted.token.unwrap_or_default();
    // Not even a demo prints more of a secret than tells it from others.
    let shown: String = token.chars().take(12).collect();
    let human = format!("{} permits upload for {}\ntoken {shown}… (shown once)", minted.id, cast.session);
    story.result("grant", json!({ "id": minted.id, "expires_at": minted.expires_at.to_string() }), &human)?;
    Ok(token)
}

/// The command of the demo: hold, redeem and enqueue.
fn command(bursar: &Bursar, cast: &Cast, token: &str) -> Result<CommandBuilder, Error> {
    let plain = JobSpec::new("media".try_into()?, "video.generate".try_into()?, Payload::default());
    let job = JobSpec { payload_from_grant: true, ..plain };
    let command = bursar.command().charge(&cast.agent, HELD).hold_for(Duration::from_secs(120));
    Ok(command.redeem("upload", &cast.session, token).job(job).key(format!("make-video/{}", cast.session)))
}

async fn metered(story: &mut Story, bursar: &Bursar, cast: &Cast, token: &str) -> Result<Receipt, Problem> {
    story.step(
        "A metered command",
        "Hold 400000, redeem the upload and enqueue the job that uses it: all of it or none of it.",
    )?;
    let receipt = command(bursar, cast, token)?.submit().await?;
    let answer: CommandAnswer = convert::command_answer(&receipt, false);
    story.result("command", to_value(&answer)?, &command::describe(&answer))?;
    story.out.say("\n     The balances now, held on all three at once:\n")?;
    show(story, bursar, cast, "balances_held").await?;
    Ok(receipt)
}

async fn settle(story: &mut Story, bursar: &Bursar, cast: &Cast, receipt: &Receipt) -> Result<(), Problem> {
    story.step("The real cost", "The video cost 320000 in the end. Committing that frees the rest at once.")?;
    let Some(hold) = &receipt.done.hold else { return Err(surprise("the command placed no hold")) };
    let settled = bursar.ledger().commit(hold.id, ACTUAL).await?;
    let settled = SettledAnswer::from(&settled);
    story.result("settled", to_value(&settled)?, &hold::describe(&settled))?;
    story.out.say("")?;
    show(story, bursar, cast, "balances_settled").await
}

async fn refused(story: &mut Story, bursar: &Bursar, cast: &Cast) -> Result<(), Problem> {
    story.step(
        "A refusal",
        "3000000 is too much for two of the three. The answer names every limit in the way; nothing changes.",
    )?;
    match bursar.command().charge(&cast.agent, TOO_MUCH).hold().submit().await {
        Ok(_) => Err(surprise("a charge above two limits was admitted")),
        Err(error) => {
            let lines = match error.refusal() {
                Some(bursar::Refusal::Refused(violations)) => {
                    violations.iter().map(|violation| format!("refused: {violation}")).collect::<Vec<_>>().join("\n")
                }
                _ => return Err(error.into()),
            };
            story.result("refused", to_value(&Problem::from(error))?, &lines)
        }
    }
}

async fn again(story: &mut Story, bursar: &Bursar, cast: &Cast, token: &str) -> Result<(), Problem> {
    story.step(
        "Asked again",
        "The caller lost the answer and repeats itself with the same idempotency key: one effect, the first answer.",
    )?;
    let receipt = command(bursar, cast, token)?.submit().await?;
    let jobs: Vec<String> = receipt.done.jobs.iter().map(|job| job.id.to_string()).collect();
    let human = format!("{} again, replayed: {}, job {}", receipt.command, receipt.replayed, jobs.join(", "));
    story.result("replayed", to_value(&convert::command_answer(&receipt, false))?, &human)?;
    match bursar.grants().redeem("upload", &cast.session, token).await {
        Ok(_) => Err(surprise("a used token was taken again")),
        Err(error) => {
            let human = format!("The token alone, without the key, is used up: {error}");
            story.result("redeemed_again", to_value(&Problem::from(error))?, &human)
        }
    }
}

async fn proof(story: &mut Story, bursar: &Bursar, before: u64) -> Result<bool, Problem> {
    story
        .step("The journal", "Every change has its event, written in the same transaction. Refusals change nothing.")?;
    let (events, _) = bursar.journal().read(before, 100).await?;
    let answers: Vec<EventAnswer> = events.iter().map(convert::event_answer).collect();
    story.result("journal", to_value(&answers)?, &journal::lines(&answers))?;
    story.step("The proof", "Balances are kept, not summed. This sums them all the same, and compares.")?;
    let report = bursar.verify().await?;
    let report: VerifyAnswer = convert::verify_answer(&report);
    story.result("verify", to_value(&report)?, &upkeep::describe(&report))?;
    Ok(report.ok)
}

fn next(story: &mut Story, session: &Session, cast: &Cast, url: &str) -> Result<(), Problem> {
    let Cast { org, agent, .. } = cast;
    // What is the default anyway would only hide what the lines are about.
    let database = if url == DATABASE_DEFAULT { String::new() } else { format!(" --database {url}") };
    let tenant = &session.tenant;
    let tenant = if *tenant == Tenant::default() { String::new() } else { format!(" --tenant {tenant}") };
    let ask = format!("bursar{database}{tenant}");
    story.out.say(&format!(
        "\nTry next:\n\
         \x20  {ask} budget show {org}\n\
         \x20  {ask} hold place {agent}=50000 --ttl-ms 60000   # then: hold commit ID --actual 42000\n\
         \x20  {ask} hold place anything=1 --limit 3:day       # no budget needed; the fourth is refused\n\
         \x20  {ask} budget freeze {agent}                     # then try to spend\n\
         \x20  {ask} command submit FILE --key K               # charges, grants and jobs as JSON\n\
         \x20  {ask} journal list --stream scope:{agent}\n\
         \x20  {ask} doctor\n\
         Add --json to any of them, --help to see more."
    ))
}

async fn show(story: &mut Story, bursar: &Bursar, cast: &Cast, name: &str) -> Result<(), Problem> {
    let mut views: Vec<BudgetView> = Vec::new();
    for scope in [&cast.org, &cast.team, &cast.agent] {
        views.extend(bursar.ledger().budget(scope).await?);
    }
    let rows = views.iter().flat_map(|view| {
        let limited = view.balances.iter().filter(|balance| balance.limit.is_some());
        limited.map(move |balance| {
            vec![
                view.scope.to_string(),
                balance.window.to_string(),
                cell(balance.limit),
                balance.posted.to_string(),
                balance.held.to_string(),
                cell(balance.remaining),
            ]
        })
    });
    let human = table(&["SCOPE", "WINDOW", "LIMIT", "POSTED", "HELD", "REMAINING"], &rows.collect::<Vec<_>>());
    let answers: Vec<BudgetAnswer> = views.iter().map(convert::budget_answer).collect();
    story.result(name, to_value(&answers)?, &human)
}

fn to_value(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| surprise(&format!("an answer cannot be written as JSON: {error}")))
}

fn surprise(what: &str) -> Problem {
    Problem::new(Kind::Internal, format!("{what}: this is a bug of bursar"))
}
