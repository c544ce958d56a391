//! The configuration file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bursar::meter::MeterSettings;
use bursar_server::wire::problem::Problem;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::{Toml, has_password};
use super::{Given, Kind, Origin, Setting, problem, settings, text_of, value_in};

/// What a file sets.
#[derive(Default)]
pub(super) struct Sets {
    pub(super) given: Vec<Given>,
    /// The meter, and where it begins.
    pub(super) meter: Option<(MeterSettings, Origin)>,
}

/// The part of a file that has a shape of its own.
#[derive(Deserialize)]
struct Metered {
    meter: MeterSettings,
}

/// What a file sets. Keys are read strictly: what is not known is refused by name, with its line.
pub(super) fn read(path: &Path) -> Result<Sets, Problem> {
    let text = text_of(path).map_err(|wrong| problem("config", &wrong))?;
    let file = File { path, text: &text };
    let document = DeTable::parse(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        // What stands on the line may be a secret, so that only the place and the reason are told.
        file.wrong("config", at, error.message())
    })?;
    let (mut given, mut meter) = (Vec::new(), None);
    for (key, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(_) if key.get_ref() == "meter" => meter = Some(file.meter(key.span().start)?),
            DeValue::Table(table) => {
                file.known_table(key)?;
                for (name, value) in table {
                    given.push(file.value(Some(key.get_ref()), name, value)?);
                }
            }
            _ => given.push(file.value(None, key, value)?),
        }
    }
    let mut taken: Vec<usize> = given.iter().map(|given| given.setting).collect();
    taken.sort_unstable();
    if let Some(twice) = taken.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = settings()[twice[0]].name;
        return Err(problem(name, &format!("{}: set either {name} or {name}_file, not both", path.display())));
    }
    Ok(Sets { given, meter })
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// A value by its table and its key.
    fn value(
        &self,
        table: Option<&str>,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Given, Problem> {
        let name = match table {
            Some(table) => format!("{table}.{}", key.get_ref()),
            None => key.get_ref().to_string(),
        };
        let at = key.span().start;
        let by_name = |wanted: &str| settings().iter().position(|setting| setting.name == wanted);
        let (setting, of_file) = match (by_name(&name), name.strip_suffix("_file").and_then(by_name)) {
            (Some(setting), _) => (setting, false),
            (None, Some(setting)) => (setting, true),
            (None, None) => return Err(self.wrong(&name, at, &unknown(&name, table))),
        };
        let known = &settings()[setting];
        if of_file {
            let DeValue::String(named) = value.get_ref() else {
                return Err(self.wrong(&name, at, &format!("{name} must be a string: the path of a file")));
            };
            let beside = self.path.parent().unwrap_or(Path::new(""));
            let of = beside.join(&**named);
            let text = value_in(&of).map_err(|wrong| self.wrong(&name, at, &format!("{name}: {wrong}")))?;
            return Ok(self.given(setting, text, at, Some(of)));
        }
        let text = text_in(known, value.get_ref()).ok_or_else(|| {
            let what = match known.kind.in_toml() {
                Toml::String => "a string",
                Toml::Integer => "an integer",
                Toml::Boolean => "true or false",
            };
            self.wrong(&name, at, &format!("{name} must be {what}: {}", known.kind.allowed()))
        })?;
        let exposed = known.kind.is_secret() || matches!(known.kind, Kind::Database(_)) && has_password(&text);
        if exposed {
            let what = if known.kind.is_secret() { "is a secret" } else { "has a password in it" };
            let variable = known.variable();
            let hint = format!(
                "{name} {what}, which does not belong in this file: set {name}_file to the path of a file that has it, or \
                 {variable} or {variable}_FILE in the environment"
            );
            return Err(self.wrong(&name, at, &hint));
        }
        Ok(self.given(setting, text, at, None))
    }

    /// The table of the meter, which begins at a place.
    fn meter(&self, at: usize) -> Result<(MeterSettings, Origin), Problem> {
        let Metered { meter } = toml::from_str(self.text).map_err(|error| {
            self.wrong("meter", error.span().map_or(at, |span| span.start), &format!("meter: {}", error.message()))
        })?;
        meter.check().map_err(|error| self.wrong("meter", at, &format!("meter.{error}")))?;
        Ok((meter, Origin::File(self.path.to_owned(), self.line(at), None)))
    }

    fn known_table(&self, table: &Spanned<Cow<'_, str>>) -> Result<(), Problem> {
        let name: &str = table.get_ref();
        let mut tables: Vec<&str> =
            settings().iter().filter_map(|setting| Some(setting.name.split_once('.')?.0)).collect();
        tables.dedup();
        tables.push("meter");
        match tables.contains(&name) {
            true => Ok(()),
            false => {
                let what = format!("[{name}] is not a table of settings; there are {}", tables.join(", "));
                Err(self.wrong(name, table.span().start, &what))
            }
        }
    }

    fn given(&self, setting: usize, text: String, at: usize, of: Option<PathBuf>) -> Given {
        Given { setting, text, origin: Origin::File(self.path.to_owned(), self.line(at), of) }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    fn wrong(&self, field: &str, at: usize, what: &str) -> Problem {
        problem(field, &format!("{}:{}: {what}", self.path.display(), self.line(at)))
    }
}

/// The text of a value that is of the kind a setting takes.
fn text_in(setting: &Setting, value: &DeValue<'_>) -> Option<String> {
    match (setting.kind.in_toml(), value) {
        (Toml::String, DeValue::String(text)) => Some(text.to_string()),
        (Toml::Integer, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        (Toml::Boolean, DeValue::Boolean(yes)) => Some(yes.to_string()),
        _ => None,
    }
}

/// What is said of a key that nobody knows, with those that are known there.
fn unknown(name: &str, table: Option<&str>) -> String {
    let of_table = |setting: &&Setting| setting.name.split_once('.').map(|(table, _)| table) == table;
    let known: Vec<&str> = settings().iter().filter(of_table).map(|setting| setting.name).collect();
    format!("{name} is not a setting; there are {}", known.join(", "))
}
