//! The flags that took milliseconds before durations had a notation: `--ttl-ms 60000` is `--ttl 60000ms`.

/// The flags, without `-ms`.
const FLAGS: [&str; 10] = [
    "--by",
    "--deadline",
    "--delay",
    "--expires-in",
    "--lease",
    "--overlap",
    "--retry-after",
    "--timeout",
    "--ttl",
    "--wait",
];

/// Replaces flags in milliseconds by the flags that take a duration. They are not in the help, but scripts use them.
pub(crate) fn as_durations(arguments: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut arguments = arguments.into_iter();
    let mut all = Vec::new();
    while let Some(argument) = arguments.next() {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument.as_str(), None),
        };
        let Some(name) = flag.strip_suffix("-ms").filter(|name| FLAGS.contains(name)) else {
            let ends = argument == "--";
            all.push(argument);
            if ends {
                all.extend(arguments);
                break;
            }
            continue;
        };
        let name = name.to_owned();
        match value.or_else(|| arguments.next()) {
            // `none` removes a setting.
            Some(value) if value == "none" => all.push(format!("{name}={value}")),
            Some(value) => all.push(format!("{name}={value}ms")),
            None => all.push(name),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_milliseconds_become_durations() {
        let converted = |line: &str| as_durations(line.split(' ').map(str::to_owned)).join(" ");
        for (given, expected) in [
            ("hold place a=1 --ttl-ms 60000", "hold place a=1 --ttl=60000ms"),
            ("hold place a=1 --ttl-ms=5 --json", "hold place a=1 --ttl=5ms --json"),
            ("queue set q --deadline-ms none", "queue set q --deadline=none"),
            ("serve --limits-body-ms 5", "serve --limits-body-ms 5"),
            ("hold place --ttl-ms", "hold place --ttl"),
            ("job show -- --ttl-ms 5", "job show -- --ttl-ms 5"),
        ] {
            assert_eq!(converted(given), expected);
        }
    }
}
