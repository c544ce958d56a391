//! The configuration file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bursar::meter::MeterSettings;
use bursar_wire::problem::Problem;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::{Toml, has_password};
use super::{Assignment, Kind, Origin, Setting, problem, read_text, read_value_file, settings};

/// The contents of a configuration file.
#[derive(Default)]
pub(super) struct FileContents {
    pub(super) assignments: Vec<Assignment>,
    /// The `[meter]` table, and the origins of the settings in it.
    pub(super) meter: Option<(MeterSettings, Vec<(usize, Origin)>)>,
}

/// A document of which only `[meter]` is read.
#[derive(Deserialize)]
struct MeterDocument {
    meter: MeterSettings,
}

/// Reads a configuration file. An unknown key is an error with its name and line.
pub(super) fn read(path: &Path) -> Result<FileContents, Problem> {
    let text = read_text(path).map_err(|error| problem("config", &error))?;
    let file = File { path, text: &text };
    let document = DeTable::parse(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        // The line may contain a secret, so the error gives only its number and the reason.
        file.error("config", at, error.message())
    })?;
    let (mut assignments, mut meter) = (Vec::new(), None);
    for (key, value) in document.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) if key.get_ref() == "meter" => meter = Some(file.meter(key.span().start, table)?),
            DeValue::Table(table) => {
                file.check_table(key)?;
                for (name, value) in table {
                    assignments.push(file.assignment(Some(key.get_ref()), name, value)?);
                }
            }
            _ => assignments.push(file.assignment(None, key, value)?),
        }
    }
    let mut assigned: Vec<usize> = assignments.iter().map(|assignment| assignment.setting).collect();
    assigned.sort_unstable();
    if let Some(pair) = assigned.windows(2).find(|pair| pair[0] == pair[1]) {
        let name = settings()[pair[0]].name;
        return Err(problem(name, &format!("{}: set either {name} or {name}_file, not both", path.display())));
    }
    Ok(FileContents { assignments, meter })
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// Reads the value of a key in a table.
    fn assignment(
        &self,
        table: Option<&str>,
        key: &Spanned<Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Assignment, Problem> {
        let name = match table {
            Some(table) => format!("{table}.{}", key.get_ref()),
            None => key.get_ref().to_string(),
        };
        let at = key.span().start;
        let by_name = |name: &str| settings().iter().position(|setting| setting.name == name);
        let (setting, is_file) = match (by_name(&name), name.strip_suffix("_file").and_then(by_name)) {
            (Some(setting), _) => (setting, false),
            (None, Some(setting)) => (setting, true),
            (None, None) => return Err(self.error(&name, at, &unknown_key(&name, table))),
        };
        let target = &settings()[setting];
        if is_file {
            let DeValue::String(file) = value.get_ref() else {
                return Err(self.error(&name, at, &format!("{name} must be a string: the path of a file")));
            };
            // Relative to the configuration file, not to the working folder.
            let file = self.path.parent().unwrap_or(Path::new("")).join(&**file);
            let text = read_value_file(&file).map_err(|error| self.error(&name, at, &format!("{name}: {error}")))?;
            return Ok(self.assign(setting, text, at, Some(file)));
        }
        let text = text_in(target, value.get_ref()).ok_or_else(|| {
            let what = match target.kind.in_toml() {
                Toml::String => "a string",
                Toml::Integer => "an integer",
                Toml::Number => "a number",
                Toml::Boolean => "true or false",
            };
            self.error(&name, at, &format!("{name} must be {what}: {}", target.kind.allowed()))
        })?;
        let is_exposed = target.kind.is_secret()
            || matches!(target.kind, Kind::Database(_) | Kind::Server(_)) && has_password(&text);
        if is_exposed {
            let what = if target.kind.is_secret() { "is a secret" } else { "has a password in it" };
            let variable = target.variable();
            let error = format!(
                "{name} {what}, which must not be in this file: set {name}_file to the path of a file with the value, or set \
                 {variable} or {variable}_FILE in the environment"
            );
            return Err(self.error(&name, at, &error));
        }
        Ok(self.assign(setting, text, at, None))
    }

    /// Reads the `[meter]` table, which begins at a byte offset. Returns its settings, and the origins of those that have a variable.
    fn meter(&self, at: usize, table: &DeTable<'_>) -> Result<(MeterSettings, Vec<(usize, Origin)>), Problem> {
        let MeterDocument { meter } = toml::from_str(self.text).map_err(|error| {
            self.error("meter", error.span().map_or(at, |span| span.start), &format!("meter: {}", error.message()))
        })?;
        meter.check().map_err(|error| self.error("meter", at, &format!("meter.{error}")))?;
        let origin_of = |(place, setting): (usize, &Setting)| {
            let name = setting.name.strip_prefix("meter.")?;
            let key = table.keys().find(|key| key.get_ref() == name).map(|key| key.span().start);
            // The table itself enables the meter, unless it says otherwise.
            let at = key.or_else(|| (name == "enabled").then_some(at))?;
            Some((place, Origin::File(self.path.to_owned(), self.line(at), None)))
        };
        Ok((meter, settings().iter().enumerate().filter_map(origin_of).collect()))
    }

    fn check_table(&self, table: &Spanned<Cow<'_, str>>) -> Result<(), Problem> {
        let name: &str = table.get_ref();
        let mut tables: Vec<&str> =
            settings().iter().filter_map(|setting| Some(setting.name.split_once('.')?.0)).collect();
        tables.dedup();
        match tables.contains(&name) {
            true => Ok(()),
            false => {
                let what = format!("[{name}] is not a table of settings; the tables are {}", tables.join(", "));
                Err(self.error(name, table.span().start, &what))
            }
        }
    }

    fn assign(&self, setting: usize, text: String, at: usize, file: Option<PathBuf>) -> Assignment {
        Assignment { setting, text, origin: Origin::File(self.path.to_owned(), self.line(at), file) }
    }

    /// Returns the number of the line at a byte offset.
    fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }

    fn error(&self, field: &str, at: usize, error: &str) -> Problem {
        problem(field, &format!("{}:{}: {error}", self.path.display(), self.line(at)))
    }
}

/// Returns a TOML value as text, if it has the type that the setting takes.
fn text_in(setting: &Setting, value: &DeValue<'_>) -> Option<String> {
    match (setting.kind.in_toml(), value) {
        (Toml::String, DeValue::String(text)) => Some(text.to_string()),
        (Toml::Integer, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        (Toml::Number, DeValue::Float(number)) => Some(number.as_str().replace('_', "")),
        (Toml::Number, DeValue::Integer(number)) => Some(number.as_str().replace('_', "")),
        (Toml::Boolean, DeValue::Boolean(yes)) => Some(yes.to_string()),
        _ => None,
    }
}

/// Returns the error for an unknown key, with the known keys of its table.
fn unknown_key(name: &str, table: Option<&str>) -> String {
    let of_table = |setting: &&Setting| setting.name.split_once('.').map(|(table, _)| table) == table;
    let known: Vec<&str> = settings().iter().filter(of_table).map(|setting| setting.name).collect();
    format!("{name} is not a setting; the settings here are {}", known.join(", "))
}
