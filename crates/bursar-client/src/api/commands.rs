//! `/v1/commands`, `/v1/verify` and `/readyz`.

use bursar_core::id::CommandId;
use bursar_wire::command::{CommandAnswer, CommandBody};
use bursar_wire::report::VerifyAnswer;
use serde::Deserialize;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// That a server is ready.
#[derive(Clone, Debug, Deserialize)]
pub struct ReadyAnswer {
    /// `ok`.
    pub status: String,
}

/// The calls for commands. From [`Client::commands`].
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a>(&'a Client);

impl Client {
    /// The calls for commands.
    pub fn commands(&self) -> Commands<'_> {
        Commands(self)
    }

    /// Checks that all balances agree with holds and postings.
    pub async fn verify(&self) -> Result<Answered<VerifyAnswer>, Error> {
        self.get(Path::new("/v1/verify")).answer().await
    }

    /// Checks that the server can execute requests. Fails with [`Kind::NotReady`](bursar_wire::problem::Kind::NotReady) and the reason
    /// if not, and as unreadable if another program answers.
    pub async fn ready(&self) -> Result<Answered<ReadyAnswer>, Error> {
        self.get(Path::new("/readyz")).answer().await
    }
}

impl Commands<'_> {
    /// Executes a command: all of its charges, redemptions and jobs, or none.
    pub async fn submit(&self, command: &CommandBody) -> Result<Answered<CommandAnswer>, Error> {
        self.0.post(Path::new("/v1/commands"), command).answer().await
    }

    /// Returns the result of an earlier command.
    pub async fn show(&self, id: CommandId) -> Result<Answered<CommandAnswer>, Error> {
        self.0.get(Path::new("/v1/commands").part(id)).answer().await
    }
}
