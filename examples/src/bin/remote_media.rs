//! An application whose videos are rendered by remote workers: it holds budget and enqueues the job in one transaction,
//! listens to progress, and gets back what was not spent.
//!
//! It reads the server's URL from `BURSAR_SERVER` and the token from `BURSAR_TOKEN`, and needs a running `remote_worker`.

use bursar_client::{
    Budget, BudgetBody, ChargeBody, Client, CommandBody, JobBody, JobState, Kind, Limit, Payload, SettleWord, Told,
    Window,
};
use bursar_examples::Failure;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = Client::new(&std::env::var("BURSAR_SERVER")?)?.token(std::env::var("BURSAR_TOKEN")?);
    let customer = "customer:7".try_into()?;
    let budget = Budget::new([Limit::new(50_000, Window::Lifetime)]);
    client.budgets().define(&customer, &BudgetBody::from(&budget)).await?;

    // Hold the estimated cost and enqueue the job, in one command. The key makes a retry return the same order.
    let scene = Payload::of(&json!({ "prompt": "a harbour at dawn", "seconds": 30 }))?;
    let order = CommandBody {
        charges: vec![ChargeBody::new(customer.clone(), 30_000)],
        settle: SettleWord::Job,
        jobs: vec![JobBody::new("media".try_into()?, "video.render".try_into()?, scene)],
        ..CommandBody::default()
    };
    let ordering = client.key("order-7".try_into()?);
    let job = ordering.commands().submit(&order).await?.jobs[0].id;
    assert_eq!(ordering.commands().submit(&order).await?.jobs[0].id, job);

    // A second order does not fit into the budget while the first one is held.
    let refused = client.commands().submit(&order).await.err().ok_or("60000 is more than 50000")?;
    assert_eq!(refused.kind(), Some(Kind::Refused));

    // Listen until the job is done. A broken connection is reopened and continues after the last event.
    let mut events = client.events([format!("job:{job}")]).after(0);
    loop {
        match events.next().await? {
            Told::Progress { percent, message, .. } => println!("{percent:?} % {}", message.unwrap_or_default()),
            Told::Happened(event) if event.kind == "job.succeeded" => break,
            _ => {}
        }
    }

    // The job cost 21000 of the 30000 held units. The rest is available again.
    let done = client.jobs().show(job).await?;
    assert_eq!((done.state, done.cost[0].amount), (JobState::Succeeded, 21_000));
    let budget = client.budgets().show(&customer).await?;
    assert_eq!((budget.balances[0].posted, budget.balances[0].held), (21_000, 0));
    println!("{}", done.result.as_str());
    Ok(())
}
