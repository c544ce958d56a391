//! What `bursar dev` prints: one screen of 24 lines by 80 columns.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;

use bursar::Tenant;
use bursar_wire::problem::shell_quoted;

use crate::config::{DATABASE_DEFAULT, FILE_VARIABLE};

/// What is on the screen.
pub(crate) struct Screen<'a> {
    /// The address that the server listens on.
    pub(crate) address: SocketAddr,
    /// The port that was asked for, if it was taken.
    pub(crate) taken: Option<u16>,
    /// The operator token.
    pub(crate) token: &'a str,
    /// The one-time code of the link that signs a browser in.
    pub(crate) code: &'a str,
    /// The file of the database.
    pub(crate) file: &'a Path,
    /// The command that works on this database, without a subcommand.
    pub(crate) command: &'a str,
    /// The command that starts this program.
    pub(crate) program: &'a str,
    /// What works in the database.
    pub(crate) fleet: Activity,
}

/// What works in the database besides the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The demo's fleet.
    Fleet,
    /// Nothing, because of `--quiet`.
    Quiet,
    /// Nothing, because the database has data of its user.
    UserData,
}

/// The widest line that needs no break.
const COLUMNS: usize = 80;

/// Returns the link that opens the dashboard signed in. Its code can be used once.
pub(crate) fn login_link(address: SocketAddr, code: &str) -> String {
    format!("http://{address}/login?code={code}")
}

impl Screen<'_> {
    /// Returns the text. It ends with the token and the link.
    pub(crate) fn text(&self) -> String {
        let Screen { address, token, code, .. } = self;
        let mut lines = self.opening();
        lines.push("In another terminal, in this folder:".to_owned());
        lines.extend(self.suggestions());
        lines.extend([
            "Over HTTP, after the export below:".to_owned(),
            format!("  curl -H \"Authorization: Bearer $BURSAR_TOKEN\" \\\n    http://{address}/v1/budgets"),
            "The operator token, valid until the next start, for a day at most:".to_owned(),
            format!("export BURSAR_TOKEN={token}"),
            "Press Ctrl-C to stop. Open this page:".to_owned(),
            format!("  {}", login_link(*address, code)),
        ]);
        lines.join("\n")
    }

    /// Returns commands to type. If they are too wide for a line, there is room for one of them.
    fn suggestions(&self) -> Vec<String> {
        let budgets = match self.fleet {
            Activity::Fleet => "budget show acme/research/scout",
            Activity::Quiet | Activity::UserData => "budget list",
        };
        let mut lines: Vec<String> =
            [budgets, "dead list", "top"].map(|subcommand| fitted(self.command, subcommand)).into();
        if lines.iter().any(|line| line.contains('\n')) {
            return vec![fitted(self.command, budgets)];
        }
        if self.fleet == Activity::Fleet && self.command == self.program {
            lines.push(format!("  {} dev --tour    # explains each step", self.program));
        }
        lines
    }

    fn opening(&self) -> Vec<String> {
        let mut lines = vec!["NOT FOR PRODUCTION: `bursar dev` is for trying Bursar on this machine.".to_owned()];
        if let Some(port) = self.taken {
            lines.push(format!("Port {port} is taken: this server uses {} instead.", self.address.port()));
        }
        let file = self.file.display();
        match self.fleet {
            Activity::Fleet => lines.extend([
                format!("A small fleet works in {file} until you stop it:"),
                "  budgets   acme > research, media and support > their agents".to_owned(),
                "  agents    call models under these caps; scout reaches its own and is refused".to_owned(),
                "  workers   gpu-1, gpu-2, post-1 and index-1 run the jobs of three queues:".to_owned(),
                "            media, mail and embed. Some fail and are retried, some die".to_owned(),
                "  schedule  digest enqueues a job every minute".to_owned(),
            ]),
            Activity::Quiet => lines.push(format!("It serves {file}, without the demo's fleet.")),
            Activity::UserData => lines.extend([
                format!("It serves {file}, which has data of your own."),
                "So the demo's fleet does not run. To watch it in a database of its own:".to_owned(),
                fitted(self.program, "dev --data bursar-demo"),
            ]),
        }
        lines.push(String::new());
        lines
    }
}

/// Returns a command as a line, broken if it is too wide.
fn fitted(command: &str, subcommand: &str) -> String {
    let line = format!("  {command} {subcommand}");
    if line.chars().count() <= COLUMNS { line } else { format!("  {command} \\\n    {subcommand}") }
}

/// Returns the command that works on a database and a tenant when it is typed in the current folder. Options that have
/// their default value are left out.
pub(crate) fn command_on(url: &str, tenant: &Tenant) -> String {
    let variables = ["BURSAR_DATABASE", "BURSAR_DATABASE_FILE", "BURSAR_SERVER", "BURSAR_SERVER_FILE", FILE_VARIABLE];
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let redirected = variables.into_iter().any(is_set) || Path::new("bursar.toml").exists();
    let database = match url == DATABASE_DEFAULT && !redirected {
        true => String::new(),
        false => format!(" --database {}", shell_quoted(url)),
    };
    let tenant = match *tenant == Tenant::default() {
        true => String::new(),
        false => format!(" --tenant {}", shell_quoted(tenant.as_str())),
    };
    format!("{}{database}{tenant}", program())
}

/// Returns the word that starts this program again when it is typed in the current folder.
pub(crate) fn program() -> String {
    let started = std::env::args_os().next().unwrap_or_else(|| "bursar".into());
    let folder = std::env::current_dir().unwrap_or_default();
    program_at(Path::new(&started), &folder, &std::env::var_os("PATH").unwrap_or_default())
}

/// Returns the program's name if the shell finds it by that name, else its path, relative to the folder if it is below it.
fn program_at(started: &Path, folder: &Path, path: &OsStr) -> String {
    let typed = |path: &Path| shell_quoted(&path.display().to_string());
    let has_folder = started.parent().is_some_and(|parent| parent != Path::new(""));
    let Some(name) = started.file_name().filter(|_| has_folder) else { return typed(started) };
    // The shell runs the first program of this name.
    let found = std::env::split_paths(path).map(|entry| entry.join(name));
    if found.into_iter().find(|entry| entry == started || entry.is_file()).as_deref() == Some(started) {
        return typed(Path::new(name));
    }
    match started.strip_prefix(folder) {
        Ok(below) if below.components().count() > 1 => typed(below),
        Ok(below) => typed(&Path::new(".").join(below)),
        Err(_) => typed(started),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as an operator token is.
    const TOKEN: &str = "bop_10d1x9xdbdvm9aawpgq3ffbnhrn3dxdg9eck12d3rcp9ayt633xg98zn5z6drdnbjjqpr5g8svv140m2sm4w";
    const CODE: &str = "0123456789abcdef0123456789abcdef";
    const ACTIVITIES: [Activity; 3] = [Activity::Fleet, Activity::Quiet, Activity::UserData];

    fn screen(fleet: Activity, program: &str, options: &str, file: &str) -> String {
        let (address, taken) = ("127.0.0.1:65535".parse().unwrap(), Some(65_534));
        let command = &format!("{program}{options}");
        Screen { address, taken, token: TOKEN, code: CODE, file: Path::new(file), command, program, fleet }.text()
    }

    /// Returns the rows that a text takes on a terminal, with the line before it: the address that the server listens on.
    fn rows(text: &str) -> usize {
        1 + text.lines().map(|line| line.chars().count().div_ceil(COLUMNS).max(1)).sum::<usize>()
    }

    #[test]
    fn the_screen_has_24_rows_of_80_columns() {
        for fleet in ACTIVITIES {
            let text = screen(fleet, "target/release/bursar", "", "bursar-data/bursar.db");
            assert!(rows(&text) <= 24, "{} rows:\n{text}", rows(&text));
            let wide = text.lines().filter(|line| line.chars().count() > COLUMNS);
            // The token alone is wider than a line, and must not be broken.
            assert!(wide.clone().all(|line| line.contains(TOKEN)) && wide.count() == 1, "{text}");
            let options = " --database sqlite:///srv/projects/agents/bursar-data/bursar.db";
            let text = screen(
                fleet,
                "/srv/projects/bursar/target/release/bursar",
                options,
                "/srv/projects/agents/bursar-data/bursar.db",
            );
            assert!(rows(&text) <= 24, "{} rows:\n{text}", rows(&text));
        }
    }

    #[test]
    fn the_screen_ends_with_the_token_and_the_link() {
        for fleet in ACTIVITIES {
            let text = screen(fleet, "bursar", "", "bursar-data/bursar.db");
            let lines: Vec<&str> = text.lines().rev().take(3).map(str::trim).collect();
            assert_eq!(lines[0], login_link("127.0.0.1:65535".parse().unwrap(), CODE));
            assert_eq!(lines[2], format!("export BURSAR_TOKEN={TOKEN}"));
            assert!(text.contains("Port 65534 is taken: this server uses 65535 instead."), "{text}");
        }
    }

    #[test]
    fn the_program_can_be_typed_as_it_was_started() {
        let path = OsStr::new("/usr/bin:/srv/tools/bin");
        for (started, typed) in [
            ("bursar", "bursar"),
            ("/srv/tools/bin/bursar", "bursar"),
            ("target/release/bursar", "target/release/bursar"),
            ("./bursar", "./bursar"),
            ("/srv/agents/target/debug/bursar", "target/debug/bursar"),
            ("/srv/agents/bursar", "./bursar"),
            ("/opt/my tools/bursar", "'/opt/my tools/bursar'"),
        ] {
            assert_eq!(program_at(Path::new(started), Path::new("/srv/agents"), path), typed, "{started}");
        }
    }

    #[test]
    fn a_program_that_another_of_its_name_precedes_is_typed_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for path in [&one, &other] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("bursar"), "").unwrap();
        }
        let path = std::env::join_paths([&one, &other]).unwrap();
        let typed = |started: &Path| program_at(started, Path::new("/srv/agents"), &path);
        assert_eq!(typed(&one.join("bursar")), "bursar");
        assert_eq!(typed(&other.join("bursar")), other.join("bursar").display().to_string());
    }
}
