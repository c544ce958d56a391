//! Options that a bench has no use for: they are left out, and that is told.

use crate::plan::{Bench, Options};

impl Options {
    /// The same without what the bench cannot use, and a word about each that was left out. So the same options can be given to
    /// every bench.
    pub(crate) fn fit(&self) -> (Options, Vec<String>) {
        let mut fitted = self.clone();
        let mut notes = Vec::new();
        let bench = self.bench;
        let of_jobs = bench.is_some_and(Bench::is_of_jobs);
        let over_http = matches!(bench, Some(Bench::Meter | Bench::Http));
        let name = bench.map_or("the standard set", Bench::as_str);
        let mut leave = |given: bool, option: &str, why: &str| {
            if given {
                notes.push(format!("{option} is ignored by {name}: {why}"));
            }
            given
        };
        if leave(of_jobs && self.scopes.is_some(), "--scopes", "jobs alone charge nothing") {
            fitted.scopes = None;
        }
        if leave(!of_jobs && self.backlog.is_some(), "--backlog", "no jobs wait in it") {
            fitted.backlog = None;
        }
        let timed = !of_jobs || bench == Some(Bench::Enqueue);
        if leave(timed && self.jobs.is_some(), "--jobs", "its rounds take --seconds, or have a number of their own") {
            fitted.jobs = None;
        }
        let latency = bench == Some(Bench::Latency);
        if leave(
            !latency && self.processes.is_some(),
            "--processes",
            "only the worker of latency can have one of its own",
        ) {
            fitted.processes = None;
        }
        let several = self.callers.is_some_and(|callers| callers != 1);
        if leave(latency && several, "--callers", "it is that of one job at a time") {
            fitted.callers = None;
        }
        if leave(latency && self.backlog.is_some(), "--backlog", "it is that of an idle system") {
            fitted.backlog = None;
        }
        let no_past = "it is measured without a past";
        if leave(over_http && self.history.is_some(), "--history", no_past) {
            fitted.history = None;
        }
        if leave(over_http && self.keys.is_some(), "--keys", no_past) {
            fitted.keys = None;
        }
        if leave(over_http && self.snapshot, "--snapshot", no_past) {
            fitted.snapshot = false;
        }
        (fitted, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Keys;

    /// Everything that can be given to any bench.
    fn everything(bench: Option<Bench>) -> Options {
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
    fn what_a_bench_cannot_use_is_left_out_and_told() {
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
        ] {
            let options = everything(Some(name.parse().unwrap()));
            let (fitted, notes) = options.fit();
            assert!(options.check().is_ok() && !fitted.plan().is_empty(), "{name} can be measured");
            let told: Vec<&str> = notes.iter().map(|note| note.split(' ').next().unwrap()).collect();
            assert_eq!(told, ignored, "{name}");
            assert!(notes.iter().all(|note| note.contains(name)), "{notes:?}");
            let left = [
                (fitted.callers.is_none(), "--callers"),
                (fitted.scopes.is_none(), "--scopes"),
                (fitted.jobs.is_none(), "--jobs"),
                (fitted.processes.is_none(), "--processes"),
                (fitted.history.is_none(), "--history"),
                (fitted.backlog.is_none(), "--backlog"),
                (fitted.keys.is_none(), "--keys"),
                (!fitted.snapshot, "--snapshot"),
            ];
            for (is_out, option) in left {
                assert_eq!(is_out, ignored.contains(&option), "{option} of {name}");
            }
            assert_eq!(fitted.fit().1, Vec::<String>::new(), "{name}: what is left is used");
        }
        let (fitted, notes) = everything(None).fit();
        assert_eq!((fitted.jobs, fitted.backlog, fitted.processes, notes.len()), (None, None, None, 3));
    }
}
