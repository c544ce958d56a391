//! Normal work writes no errors to the log of PostgreSQL.

use bursar::sqlx::{self, Connection, PgConnection};
use bursar::{Bursar, Payload};

use crate::home::{ask, budget, job};

/// Commands, jobs and repeated keys from two nodes that compete for one scope and one queue.
async fn busy_nodes(url: &str) -> Vec<Bursar> {
    let mut nodes = Vec::new();
    for _ in 0..2 {
        nodes.push(Bursar::options(url).open().await.unwrap());
    }
    nodes[0].ledger().define("team", budget(1_000_000)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for (task, node) in (0..8).flat_map(|task| nodes.iter().map(move |node| (task, node.clone()))) {
        tasks.spawn(async move {
            for round in 0..25 {
                let command = node.command().charge("team", 2).settle_with_job().job(job("q", "work"));
                // Both nodes submit the same command at about the same time.
                command.key(format!("key-{task}-{round}").as_str()).submit().await.unwrap();
                for leased in node.jobs().lease(ask("q", 4)).await.unwrap().jobs {
                    node.jobs().complete(leased.id, leased.life.fence, Payload::default(), None).await.unwrap();
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn normal_work_writes_no_errors_to_the_server_log() {
    let url = bursar_testkit::fresh_database();
    let nodes = busy_nodes(&url).await;
    // An error of the test itself shows that errors of this database are found.
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("SELECT 1 / 0").execute(&mut conn).await.unwrap_err();
    let log = std::fs::read_to_string(bursar_testkit::postgres().folder().join("log")).unwrap();
    let error = format!(":{}:ERROR:", url.rsplit('/').next().unwrap());
    let errors: Vec<&str> = log.lines().filter(|line| line.contains(&error)).collect();
    assert!(matches!(errors.as_slice(), [one] if one.contains("division by zero")), "{errors:#?}");
    for node in nodes {
        assert_eq!(node.verify().await.unwrap().violations, Vec::<String>::new());
        node.close().await;
    }
}
