//! A session: the database, and who asks for whom.

use std::path::Path;

use bursar::{Actor, Bursar, Context, IdempotencyKey, Op, Outcome, Request};

use crate::args::Global;
use crate::config::DATABASE_DEFAULT;
use crate::output::Output;
use bursar_server::wire::problem::{Kind, Problem};

/// An open database and the circumstances of this call.
pub(crate) struct Session {
    pub(crate) bursar: Bursar,
    pub(crate) context: Context,
    pub(crate) out: Output,
}

impl Session {
    /// Opens the database as it is. Tables are made and upgraded only when that is asked for: a mistyped address must
    /// not become a new database, and a look at a budget must not upgrade what others are using.
    pub(crate) async fn open(global: &Global) -> Result<Session, Problem> {
        if let Some(path) = sqlite_path(global.config.database.url()).filter(|path| !path.exists()) {
            let hint = "`bursar migrate` makes it, `bursar dev` makes one with a demo in ./bursar-data";
            let detail = format!("unavailable: there is no database at {}; {hint}", path.display());
            return Err(Problem::new(Kind::Unavailable, detail));
        }
        Session::start(global, global.config.database.url(), false).await
    }

    /// Opens the database, making or upgrading its tables.
    pub(crate) async fn prepare(global: &Global, url: &str) -> Result<Session, Problem> {
        make_default_folder(url)?;
        Session::start(global, url, true).await
    }

    async fn start(global: &Global, url: &str, migrate: bool) -> Result<Session, Problem> {
        // A short call tidies nothing in the background: it would do what nobody asked for.
        let bursar = global.config.options(url).migrate(migrate).upkeep(None).open().await?;
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
        let actor = user.map_or(Actor::System, Actor::User);
        let context = Context::of(global.tenant.clone().unwrap_or_default()).by(actor);
        let bursar = bursar.in_context(context.clone());
        Ok(Session { bursar, context, out: Output::new(global.json) })
    }

    /// The same session, with a reason for the journal.
    pub(crate) fn because(&self, reason: Option<&str>) -> Session {
        let context = Context { reason: reason.map(str::to_owned), ..self.context.clone() };
        Session { bursar: self.bursar.in_context(context.clone()), context, out: self.out }
    }

    /// Asks for anything, once however often under the same key.
    pub(crate) async fn ask(&self, op: Op, key: Option<IdempotencyKey>) -> Result<Outcome, Problem> {
        let request = Request { idempotency_key: key, ..Request::from(op).in_context(self.context.clone()) };
        Ok(self.bursar.request(request).await?)
    }

    /// Ends what runs in the background.
    pub(crate) async fn close(self) {
        self.bursar.close().await;
    }
}

/// The file of an embedded database.
pub(crate) fn sqlite_path(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"))?;
    (!path.is_empty() && path != ":memory:").then(|| Path::new(path))
}

/// Makes the folder of the default database. Only that place is this program's own; other folders are somebody's decision.
pub(crate) fn make_default_folder(url: &str) -> Result<(), Problem> {
    match sqlite_path(url).and_then(Path::parent) {
        Some(folder) if url == DATABASE_DEFAULT => make_folder(folder),
        _ => Ok(()),
    }
}

/// Makes a folder, and those it is in.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Problem> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let detail = format!("unavailable: the folder {} cannot be made ({error}); choose another", folder.display());
        Problem::new(Kind::Unavailable, detail)
    })
}
