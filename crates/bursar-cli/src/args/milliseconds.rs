//! The flags that took milliseconds before durations had a notation: `--ttl-ms 60000` is `--ttl 60000ms`.

use std::ffi::OsString;

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
pub(crate) fn as_durations(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut all = Vec::new();
    while let Some(argument) = arguments.next() {
        let Some((name, value)) = argument.to_str().and_then(split) else {
            let ends = argument == "--";
            all.push(argument);
            if ends {
                all.extend(arguments);
                break;
            }
            continue;
        };
        let next = || arguments.next().map(|value| value.to_string_lossy().into_owned());
        all.push(match value.or_else(next) {
            // `none` removes a setting.
            Some(value) if value == "none" => format!("{name}={value}").into(),
            Some(value) => format!("{name}={value}ms").into(),
            None => name.into(),
        });
    }
    all
}

/// Splits a flag in milliseconds into the name of the other flag and its value, if the argument has both.
fn split(argument: &str) -> Option<(&'static str, Option<String>)> {
    let (flag, value) = match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value.to_owned())),
        None => (argument, None),
    };
    let name = flag.strip_suffix("-ms")?;
    FLAGS.into_iter().find(|known| *known == name).map(|name| (name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_milliseconds_become_durations() {
        let converted = |line: &str| {
            let all = as_durations(line.split(' ').map(OsString::from));
            all.join(" ".as_ref()).into_string().expect("text")
        };
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
