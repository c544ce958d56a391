//! Runs PostgreSQL's `pg_dump` and `pg_restore`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bursar_wire::problem::{Kind, Problem};
use percent_encoding::percent_decode_str;

use crate::config::{has_password_parameter, split_password};
use crate::output::Output;

/// Dumps one snapshot of a database to a file, in PostgreSQL's custom format. Returns the size in bytes.
pub(crate) fn dump(url: &str, to: &Path, out: Output) -> Result<u64, Problem> {
    let mut part = to.as_os_str().to_owned();
    part.push(".part");
    let part = PartialFile(PathBuf::from(part));
    let program = find_program("pg_dump").ok_or_else(|| not_installed("pg_dump", "--format=custom --file", to, url))?;
    out.note(&format!("copying the database with {}", program.display()));
    let mut command = command_for(&program, url)?;
    // Row-level security may apply to the owner. It shows all rows to an owner who says so; pg_dump alone would fail.
    let options = std::env::var("PGOPTIONS").unwrap_or_default();
    command.env("PGOPTIONS", format!("{options} -c bursar.every_tenant=on"));
    run(command.args(["--format=custom", "--enable-row-security", "--no-password", "--file"]).arg(&part.0))?;
    // Listing the contents fails on a truncated dump.
    if let Some(program) = find_program("pg_restore") {
        run(Command::new(program).arg("--list").arg(&part.0))?;
    }
    let failed =
        |error: std::io::Error| Problem::new(Kind::Unusable, format!("{} cannot be written: {error}", to.display()));
    let file = File::open(&part.0).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    std::fs::rename(&part.0, to).map_err(failed)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(bytes)
}

/// Restores a dump into an empty database, in one transaction.
pub(crate) fn restore(url: &str, from: &Path, out: Output) -> Result<(), Problem> {
    let program = find_program("pg_restore");
    let program = program
        .ok_or_else(|| not_installed("pg_restore", "--single-transaction --no-owner --no-privileges", from, url))?;
    out.note(&format!("restoring the database with {}", program.display()));
    let mut command = command_for(&program, url)?;
    // The roles that have privileges in the dump may not exist here. Bursar gives its own role what it needs when it opens the database.
    let options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", "--no-password"];
    run(command.args(options).arg(from))
}

/// An unfinished file, removed on drop unless it has been renamed.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Builds a command that connects to a database. The password goes into the environment, because other users can see
/// the arguments of a process.
fn command_for(program: &Path, url: &str) -> Result<Command, Problem> {
    let mut command = Command::new(program);
    if has_password_parameter(url) {
        let detail = "the password must be in front of the host: postgres://USER:PASSWORD@HOST/DATABASE";
        return Err(Problem::invalid("database".into(), detail));
    }
    match split_password(url) {
        Some((before, password, after)) => {
            let password = percent_decode_str(password).decode_utf8();
            let password = password.map_err(|_| Problem::invalid("database".into(), "the password is not UTF-8"))?;
            command.env("PGPASSWORD", &*password).arg(format!("--dbname={before}{after}"))
        }
        None => command.arg(format!("--dbname={url}")),
    };
    Ok(command)
}

fn run(command: &mut Command) -> Result<(), Problem> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let failed = |why: &str| {
        let detail = format!("{program} failed; nothing was changed: {why}");
        Problem::new(Kind::Unusable, detail)
    };
    let output = output.map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Finds a program on the PATH, or else the newest version in Debian's folder.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file());
    on_path.or_else(|| {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let mut versions: Vec<PathBuf> = versions.collect();
        versions.sort_by_key(number);
        versions.iter().rev().map(|version| version.join("bin").join(name)).find(|program| program.is_file())
    })
}

fn not_installed(program: &str, arguments: &str, file: &Path, url: &str) -> Problem {
    let url = split_password(url).map_or_else(|| url.to_owned(), |(before, _, after)| format!("{before}{after}"));
    let detail = format!(
        "{program} is not installed; nothing was changed; install PostgreSQL's client programs, or run elsewhere: \
         {program} --dbname='{url}' {arguments} {}",
        file.display()
    );
    Problem::new(Kind::Unusable, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_passed_as_an_argument() {
        let command = command_for(Path::new("pg_dump"), "postgres://me:a%40b%25@host:1/db").unwrap();
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(args, ["--dbname=postgres://me@host:1/db"]);
        let env: Vec<_> = command.get_envs().collect();
        assert_eq!(env, [("PGPASSWORD".as_ref(), Some("a@b%".as_ref()))]);
        assert!(command_for(Path::new("pg_dump"), "postgres://host/db?password=x").is_err());
        let detail =
            not_installed("pg_dump", "--format=custom --file", Path::new("a.dump"), "postgres://me:secret@host/db")
                .detail;
        assert!(detail.ends_with("pg_dump --dbname='postgres://me@host/db' --format=custom --file a.dump"), "{detail}");
    }
}
