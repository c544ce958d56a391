//! The archive of the journal: rows leave the table, and everything reads as before.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bursar::{
    ArchiveOptions, Archived, Bursar, DirectoryPlace, Event, JobId, JobSpec, JournalEvent, JournalProof, MemoryPlace,
    Payload, Span, Stream,
};

use crate::home::{Home, Place, on_both_engines};

on_both_engines! {
    archived_events_are_read_as_before,
    a_database_is_rebuilt_from_its_archive_and_the_rest,
    a_process_may_end_between_any_two_steps,
    damage_of_the_archive_is_named_and_never_a_gap,
    without_the_archive_its_rows_are_an_error,
    an_archive_that_cannot_be_written_is_reported,
    maintenance_archives_rows_in_the_background,
    two_nodes_archive_each_row_once,
}

const DAY: Duration = Duration::from_secs(86_400);

async fn open(place: Place, archive: &MemoryPlace) -> Home {
    place.open_with(|options| options.archive(ArchiveOptions::at(archive.clone()).after(DAY))).await
}

/// Opens the database of a home once more.
async fn again(home: &Home, archive: Option<&MemoryPlace>) -> Bursar {
    let options = Bursar::options(&home.url).clock(home.clock.clone()).upkeep(None);
    let options = match archive {
        Some(files) => options.archive(ArchiveOptions::at(files.clone()).after(DAY)),
        None => options,
    };
    options.open().await.unwrap()
}

/// What happened in a database before it was archived.
struct Past {
    events: Vec<JournalEvent>,
    job: JobId,
    payload: String,
}

/// Makes events of several kinds, on two days.
async fn live(home: &Home) -> Past {
    let Home { bursar, clock, .. } = home;
    home.budgets(&["room", "hall"]).await;
    let payload = format!("\"{}\"", "p".repeat(5_000));
    let spec = JobSpec::new("q".parse().unwrap(), "k".parse().unwrap(), Payload::new(&payload).unwrap());
    let job = bursar.jobs().enqueue(spec).await.unwrap().id;
    for amount in 0..20 {
        let held = bursar.ledger().hold("room", amount, Duration::from_secs(600)).await.unwrap();
        match amount % 3 {
            0 => drop(held.commit(amount / 2).await.unwrap()),
            1 => drop(held.release("done").await.unwrap()),
            _ => drop(held.detach()),
        }
        bursar.ledger().post("hall", 1).await.unwrap();
    }
    clock.advance(Span::from_days(3));
    bursar.sweep(500).await.unwrap();
    bursar.tidy().await.unwrap();
    clock.advance(Span::from_days(3));
    bursar.ledger().post("hall", 5).await.unwrap();
    Past { events: events(bursar).await, job, payload }
}

/// Reads the whole journal.
async fn events(bursar: &Bursar) -> Vec<JournalEvent> {
    let (mut all, mut at) = (Vec::new(), 0);
    loop {
        let (events, next) = bursar.journal().read(at, 7).await.unwrap();
        all.extend(events);
        if next == at {
            return all;
        }
        at = next;
    }
}

async fn archive(bursar: &Bursar) -> Archived {
    bursar.journal().archive().await.unwrap()
}

async fn prove(bursar: &Bursar) -> JournalProof {
    bursar.journal().prove().await.unwrap()
}

async fn archived_events_are_read_as_before(place: Place) {
    let files = MemoryPlace::default();
    let home = open(place, &files).await;
    let past = live(&home).await;
    let (bursar, last) = (&home.bursar, past.events.last().unwrap().position);
    let room = Stream::Scope("default".parse().unwrap(), "room".parse().unwrap());
    let history = bursar.journal().history(&room, 1_000).await.unwrap();
    let of_job = bursar.jobs().history(past.job, 100).await.unwrap();
    let status = bursar.journal().archive_status().await.unwrap();
    assert_eq!((status.last, status.place.as_deref(), status.position), (None, Some("memory"), last));
    assert!(status.overdue > Some(Span::from_days(4)), "{:?}", status.overdue);

    assert_eq!(
        bursar.journal().archive_preview().await.unwrap().map(|(first, last, _)| (first, last)),
        Some((1, last - 1))
    );
    let done = archive(bursar).await;
    assert_eq!(done.segments.iter().map(|of| (of.first, of.last)).collect::<Vec<_>>(), [(1, last - 1)]);
    assert_eq!(home.count("journal").await, 1, "the last row stays");
    assert_eq!(archive(bursar).await, Archived::default(), "nothing is left");

    assert_eq!(events(bursar).await, past.events);
    for after in 0..=last {
        let (some, _) = bursar.journal().read(after, 3).await.unwrap();
        assert_eq!(some[..], past.events[after as usize..][..some.len()]);
        assert!(!some.is_empty() || after == last);
    }
    assert_eq!(bursar.journal().history(&room, 1_000).await.unwrap(), history);
    let (mut paged, mut from) = (Vec::new(), None);
    loop {
        let (some, next) = bursar.journal().history_page(&room, from, 4).await.unwrap();
        paged.extend(some);
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(paged, history);
    assert_eq!(bursar.jobs().history(past.job, 100).await.unwrap(), of_job);
    let first_job = of_job.iter().find(|event| matches!(event.event, Event::JobEnqueued { .. })).unwrap();
    assert!(bursar.journal().command(first_job.command).await.unwrap().is_some());
    assert!(bursar.journal().position_at(past.events[5].at).await.unwrap() < 6);

    let proof = prove(bursar).await;
    assert_eq!((proof.segments, proof.archived, proof.position, proof.table_rows), (1, last - 1, last, 1));
    let status = bursar.journal().archive_status().await.unwrap();
    assert_eq!((status.last, status.overdue), (done.segments.last().cloned(), None));
    // After a quiet time the row that was the last one until now is old, but was not due before.
    home.clock.advance(Span::from_days(40));
    bursar.ledger().post("room", 1).await.unwrap();
    let overdue = bursar.journal().archive_status().await.unwrap().overdue;
    assert!(overdue.is_some_and(|overdue| overdue < Span::from_days(1)), "{overdue:?}");
    // A payload of an archived event can still be erased.
    assert_eq!(bursar.jobs().find(past.job).await.unwrap().unwrap().payload.as_str(), past.payload);
    bursar.jobs().cancel(past.job).await.unwrap();
    bursar.jobs().erase(past.job).await.unwrap();
    let erased = bursar.jobs().history(past.job, 100).await.unwrap();
    let Event::JobEnqueued { spec, .. } = &erased.last().unwrap().event else { panic!("{erased:?}") };
    assert_eq!(spec.payload.as_str(), "null");
    assert!(prove(bursar).await.digest == proof.digest, "the archive did not change");
}

async fn a_database_is_rebuilt_from_its_archive_and_the_rest(place: Place) {
    let files = MemoryPlace::default();
    let home = open(place, &files).await;
    let past = live(&home).await;
    let bursar = &home.bursar;
    archive(bursar).await;
    bursar.ledger().post("room", 9).await.unwrap();
    const TABLES: [&str; 8] = ["scopes", "holds", "live_charges", "postings", "grants", "jobs", "ended_jobs", "queues"];
    let look = async || {
        let mut rows = Vec::new();
        for table in TABLES {
            rows.push((table, home.count(table).await));
        }
        let balances = bursar.ledger().budgets("", None, 100).await.unwrap();
        let job = bursar.jobs().find(past.job).await.unwrap();
        (rows, format!("{balances:?}"), job, events(bursar).await)
    };
    let before = look().await;
    for table in TABLES {
        home.sql(format!("DELETE FROM {}", home.table(table))).await;
    }
    assert!(bursar.jobs().find(past.job).await.unwrap().is_none());
    let end = bursar.health().await.unwrap().position;
    assert_eq!(bursar.rebuild().await.unwrap(), end);
    assert_eq!(look().await, before);
    assert!(bursar.verify().await.unwrap().is_ok());
    // Its journal goes on, and so does its archive.
    home.clock.advance(Span::from_days(3));
    bursar.ledger().post("room", 1).await.unwrap();
    assert_eq!(archive(bursar).await.segments.len(), 1);
    assert_eq!((prove(bursar).await.segments, bursar.rebuild().await.unwrap()), (2, end + 1));
}

/// A future that is dropped after it was pending some times, as if its process had ended.
pub(crate) struct Killed<F>(pub(crate) Pin<Box<F>>, pub(crate) usize);

impl<F: Future> Future for Killed<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let polled = self.0.as_mut().poll(cx).map(Some);
        if polled.is_pending() {
            if self.1 == 0 {
                return Poll::Ready(None);
            }
            self.1 -= 1;
        }
        polled
    }
}

async fn a_process_may_end_between_any_two_steps(place: Place) {
    let files = MemoryPlace::default();
    let home = open(place, &files).await;
    let past = live(&home).await;
    let bursar = &home.bursar;
    let mut expected = past.events;
    for steps in 0.. {
        let ended = Killed(Box::pin(bursar.journal().archive()), steps).await;
        assert_eq!(events(bursar).await, expected, "after {steps} steps");
        if steps % 4 == 3 {
            // Something new becomes old.
            bursar.ledger().post("room", 1).await.unwrap();
            home.clock.advance(Span::from_days(2));
            expected = events(bursar).await;
        }
        if ended.is_some() {
            break;
        }
        assert!(steps < 500, "the steps end");
    }
    archive(bursar).await;
    let proof = prove(bursar).await;
    assert_eq!(proof.table_rows, 1, "everything but the last row is archived");
    assert_eq!(proof.position, expected.last().unwrap().position);
    assert_eq!(bursar.rebuild().await.unwrap(), proof.position);
    assert!(bursar.verify().await.unwrap().is_ok());
}

async fn damage_of_the_archive_is_named_and_never_a_gap(place: Place) {
    let (files, folder) = (MemoryPlace::default(), tempfile::tempdir().unwrap());
    let home = open(place.in_folder(folder.path()), &files).await;
    live(&home).await;
    let first = archive(&home.bursar).await.segments.remove(0);
    home.bursar.ledger().post("room", 1).await.unwrap();
    home.clock.advance(Span::from_days(2));
    home.bursar.ledger().post("room", 1).await.unwrap();
    let second = archive(&home.bursar).await.segments.remove(0);
    let name = second.name();
    let whole = files.with_files(|files| files[&name].clone());
    let other = files.with_files(|files| files[&first.name()].clone());
    let mut changed = whole.clone();
    let middle = whole.len() - 3;
    changed[middle] ^= 1;
    for (damage, words) in [
        (Some(changed), "damaged"),
        (Some(whole[..whole.len() - 1].to_vec()), ""),
        (Some(other), "bytes"),
        (None, "missing"),
    ] {
        files.with_files(|files| match damage {
            Some(bytes) => files.insert(name.clone(), bytes),
            None => files.remove(&name),
        });
        // An instance that has not read the segment yet.
        let fresh = again(&home, Some(&files)).await;
        for error in [
            fresh.journal().prove().await.unwrap_err(),
            fresh.journal().read(second.first - 1, 10).await.unwrap_err(),
            fresh.rebuild().await.unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains(&name) && error.contains(words), "{words}: {error}");
        }
        files.with_files(|files| files.insert(name.clone(), whole.clone()));
        fresh.journal().prove().await.unwrap();
    }
    let names = [first.name(), name];
    files.with_files(|files| names.iter().for_each(|name| drop(files.remove(name))));
    let error = again(&home, Some(&files)).await.journal().prove().await.unwrap_err().to_string();
    assert!(error.starts_with("2 segments") && names.iter().all(|name| error.contains(name)), "{error}");
}

async fn an_archive_that_cannot_be_written_is_reported(place: Place) {
    let folder = tempfile::tempdir().unwrap();
    // A file is where the directory should be, which no user can write to.
    let path = folder.path().join("journal");
    std::fs::write(&path, "").unwrap();
    let home = place
        .in_folder(folder.path())
        .open_with(|options| options.archive(ArchiveOptions::at(DirectoryPlace::new(&path))))
        .await;
    let error = home.bursar.journal().reach_archive().await.unwrap_err().to_string();
    assert!(error.contains("cannot be written") && error.contains("journal.archive"), "{error}");
    std::fs::remove_file(&path).unwrap();
    home.bursar.journal().reach_archive().await.unwrap();
    assert_eq!(home.bursar.journal().prove().await.unwrap().unknown_files, Vec::<String>::new());
}

async fn without_the_archive_its_rows_are_an_error(place: Place) {
    let (files, folder) = (MemoryPlace::default(), tempfile::tempdir().unwrap());
    let home = open(place.in_folder(folder.path()), &files).await;
    let past = live(&home).await;
    let end = past.events.last().unwrap().position;
    archive(&home.bursar).await;
    let without = again(&home, None).await;
    for error in [
        without.journal().read(0, 10).await.unwrap_err(),
        without.journal().history(&Stream::Job(past.job), 10).await.unwrap_err(),
        without.journal().prove().await.unwrap_err(),
        without.journal().archive().await.unwrap_err(),
        without.rebuild().await.unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("archive") && error.contains("journal.archive"), "{error}");
    }
    assert_eq!(without.journal().read(end - 1, 10).await.unwrap().0.len(), 1, "what is not archived is read");
    without.ledger().post("hall", 1).await.unwrap();
    assert!(without.verify().await.unwrap().is_ok());
}

async fn maintenance_archives_rows_in_the_background(place: Place) {
    let folder = tempfile::tempdir().unwrap();
    let files = DirectoryPlace::new(folder.path().join("journal"));
    let archive = ArchiveOptions::at(files).after(DAY);
    let home = place.in_folder(folder.path()).open_with(|options| options.archive(archive.clone())).await;
    let past = live(&home).await;
    let upkeep = Bursar::options(&home.url).clock(home.clock.clone()).archive(archive).open().await.unwrap();
    let end = past.events.last().unwrap().position;
    let until = async {
        while home.count("journal").await > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), until).await.expect("rows are archived within a minute");
    let counts = upkeep.journal().archive_counts();
    assert_eq!((counts.position, counts.segments, counts.failures), (end - 1, 1, 0));
    assert_eq!(events(&home.bursar).await, past.events);
    let names: Vec<_> = std::fs::read_dir(folder.path().join("journal")).unwrap().collect();
    assert_eq!(names.len(), 1);
}

async fn two_nodes_archive_each_row_once(place: Place) {
    let (files, folder) = (MemoryPlace::default(), tempfile::tempdir().unwrap());
    let home = open(place.in_folder(folder.path()), &files).await;
    let past = live(&home).await;
    let other = again(&home, Some(&files)).await;
    let (one, two) = tokio::join!(archive(&home.bursar), archive(&other));
    assert_eq!(one.segments.len() + two.segments.len(), 1);
    assert_eq!((events(&home.bursar).await, events(&other).await), (past.events.clone(), past.events));
    assert_eq!(prove(&other).await.unknown_files, Vec::<String>::new(), "both wrote the same file");
}
