//! The settings as flags.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{Given, Origin, Setting, settings};

/// Settings that were given as flags. Secrets have none: a command line is for everybody to see.
#[derive(Clone, Default)]
pub(crate) struct Flags(Vec<(&'static str, String)>);

impl Flags {
    /// The same with the flag of a setting that is known to every command.
    pub(crate) fn with(mut self, name: &'static str, text: Option<&str>) -> Flags {
        self.0.extend(text.map(|text| (name, text.to_owned())));
        self
    }

    pub(super) fn given(&self) -> impl Iterator<Item = Given> {
        self.0.iter().filter_map(|(name, text)| {
            let setting = settings().iter().position(|setting| setting.name == *name)?;
            Some(Given { setting, text: text.clone(), origin: Origin::Flag(settings()[setting].flag()) })
        })
    }

    /// The settings that are flags here: all that are no secret, but the database, which is a flag of every command.
    fn own() -> impl Iterator<Item = &'static Setting> {
        settings().iter().filter(|setting| setting.name != "database" && !setting.kind.is_secret())
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        Flags::own().fold(command, |command, setting| {
            let flag = setting.flag();
            let arg = Arg::new(setting.name).long(flag.trim_start_matches("--").to_owned());
            command
                .arg(arg.value_name("VALUE").help(setting.about).help_heading("Settings").hide_short_help(setting.rare))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let given = |setting: &Setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone()));
        Ok(Flags(Flags::own().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}
