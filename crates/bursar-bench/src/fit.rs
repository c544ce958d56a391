//! Options that a bench does not use are ignored with a note.

use crate::plan::{Bench, Options};

impl Options {
    /// Returns the options without those that the bench does not use, and a note about each ignored one. So the same options can
    /// be passed to every bench.
    pub(crate) fn fit(&self) -> (Options, Vec<String>) {
        let mut fitted = self.clone();
        let mut notes = Vec::new();
        let bench = self.bench;
        let of_jobs = bench.is_some_and(Bench::is_on_jobs);
        let over_http = matches!(bench, Some(Bench::Meter | Bench::MeterSlices | Bench::Http | Bench::Blob));
        let name = bench.map_or("the standard set", Bench::as_str);
        let mut ignore = |given: bool, option: &str, why: &str| {
            if given {
                notes.push(format!("{option} is ignored by {name}: {why}"));
            }
            given
        };
        if ignore(of_jobs && self.scopes.is_some(), "--scopes", "its jobs charge no scope") {
            fitted.scopes = None;
        }
        let of_blobs = bench == Some(Bench::Blob);
        if ignore(of_blobs && self.scopes.is_some(), "--scopes", "its blobs charge no scope") {
            fitted.scopes = None;
        }
        if ignore(!of_jobs && self.backlog.is_some(), "--backlog", "it has no waiting jobs") {
            fitted.backlog = None;
        }
        let timed = !of_jobs || bench == Some(Bench::Enqueue);
        if ignore(timed && self.jobs.is_some(), "--jobs", "its rounds are timed with --seconds, or have a fixed size") {
            fitted.jobs = None;
        }
        let latency = bench == Some(Bench::Latency);
        if ignore(
            !latency && self.processes.is_some(),
            "--processes",
            "only latency can run its worker in a second process",
        ) {
            fitted.processes = None;
        }
        let several = self.callers.is_some_and(|callers| callers != 1);
        if ignore(latency && several, "--callers", "it runs one job at a time") {
            fitted.callers = None;
        }
        if ignore(latency && self.backlog.is_some(), "--backlog", "it measures an idle system") {
            fitted.backlog = None;
        }
        let no_history = "it is measured without history";
        if ignore(over_http && self.history.is_some(), "--history", no_history) {
            fitted.history = None;
        }
        if ignore(over_http && self.keys.is_some(), "--keys", no_history) {
            fitted.keys = None;
        }
        if ignore(over_http && self.snapshot, "--snapshot", no_history) {
            fitted.snapshot = false;
        }
        (fitted, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Keys;

    /// Returns options with every option set.
    fn all_options(bench: Option<Bench>) -> Options {
        Options {
            bench,
            callers: Some(7),
            scopes: Some(3),
            jobs: Some(5),
            processes: Some(2),
            history: Some(9),
            backlog: Some(4),
            keys: Some(Keys::Time),
            snapshot: true,
            ..Options::default()
        }
    }

    #[test]
    fn unused_options_are_ignored_with_a_note() {
        let of_kernel = &["--backlog", "--jobs", "--processes"][..];
        let over_http = &["--backlog", "--jobs", "--processes", "--history", "--keys", "--snapshot"][..];
        for (name, ignored) in [
            ("command", of_kernel),
            ("hold", of_kernel),
            ("settle", of_kernel),
            ("enqueue", &["--scopes", "--jobs", "--processes"]),
            ("enqueue-bulk", &["--scopes", "--processes"]),
            ("drain", &["--scopes", "--processes"]),
            ("drain-worker", &["--scopes", "--processes"]),
            ("latency", &["--scopes", "--callers", "--backlog"]),
            ("meter", over_http),
            ("http", over_http),
            ("blob", &["--scopes", "--backlog", "--jobs", "--processes", "--history", "--keys", "--snapshot"]),
        ] {
            let options = all_options(Some(name.parse().unwrap()));
            let (fitted, notes) = options.fit();
            assert!(options.check().is_ok() && !fitted.plan().is_empty(), "{name} can be measured");
            let noted: Vec<&str> = notes.iter().map(|note| note.split(' ').next().unwrap()).collect();
            assert_eq!(noted, ignored, "{name}");
            assert!(notes.iter().all(|note| note.contains(name)), "{notes:?}");
            let removed = [
                (fitted.callers.is_none(), "--callers"),
                (fitted.scopes.is_none(), "--scopes"),
                (fitted.jobs.is_none(), "--jobs"),
                (fitted.processes.is_none(), "--processes"),
                (fitted.history.is_none(), "--history"),
                (fitted.backlog.is_none(), "--backlog"),
                (fitted.keys.is_none(), "--keys"),
                (!fitted.snapshot, "--snapshot"),
            ];
            for (is_removed, option) in removed {
                assert_eq!(is_removed, ignored.contains(&option), "{option} of {name}");
            }
            assert_eq!(fitted.fit().1, Vec::<String>::new(), "{name}: the remaining options are used");
        }
        let (fitted, notes) = all_options(None).fit();
        assert_eq!((fitted.jobs, fitted.backlog, fitted.processes, notes.len()), (None, None, None, 3));
    }
}
