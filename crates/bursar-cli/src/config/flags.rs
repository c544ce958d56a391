//! Settings as command-line flags.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{Assignment, Origin, Setting, settings};

/// Settings given as flags. Secrets have no flags, because other users can see a command line.
#[derive(Clone, Default)]
pub(crate) struct Flags(Vec<(&'static str, String)>);

impl Flags {
    /// Adds the value of a flag that every command has.
    pub(crate) fn with(mut self, name: &'static str, text: Option<&str>) -> Flags {
        self.0.extend(text.map(|text| (name, text.to_owned())));
        self
    }

    pub(super) fn assignments(&self) -> impl Iterator<Item = Assignment> {
        self.0.iter().filter_map(|(name, text)| {
            let setting = settings().iter().position(|setting| setting.name == *name)?;
            Some(Assignment { setting, text: text.clone(), origin: Origin::Flag(settings()[setting].flag()) })
        })
    }

    /// The settings that become flags: all but secrets, and the database, which is a global flag.
    fn flag_settings() -> impl Iterator<Item = &'static Setting> {
        settings().iter().filter(|setting| setting.name != "database" && !setting.kind.is_secret())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        Flags::flag_settings().fold(command, |command, setting| {
            let flag = setting.flag();
            let arg = Arg::new(setting.name).long(flag.trim_start_matches("--").to_owned());
            let arg = arg.value_name(setting.kind.value_name()).help(help(setting));
            command.arg(arg.help_heading("Settings").hide_short_help(setting.rare))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let given = |setting: &Setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone()));
        Ok(Flags(Flags::flag_settings().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Formats the help of a flag: the description as a sentence, with the default.
fn help(setting: &Setting) -> String {
    let (first, rest) = setting.about.split_at(1);
    let default = setting.default().map(|default| format!(" [default: {default}]")).unwrap_or_default();
    format!("{}{rest}{default}", first.to_ascii_uppercase())
}
