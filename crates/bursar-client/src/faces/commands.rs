//! Commands.

use bursar_core::id::CommandId;
use bursar_wire::command::{CommandAnswer, CommandBody};
use bursar_wire::report::VerifyAnswer;

use crate::answered::Answered;
use crate::client::Client;
use crate::error::Error;
use crate::path::Path;

/// Commands: charges, redemptions and jobs, all or nothing.
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a>(&'a Client);

impl Client {
    /// Commands.
    pub fn commands(&self) -> Commands<'_> {
        Commands(self)
    }

    /// Checks that balances are what holds and postings say.
    pub async fn verify(&self) -> Result<Answered<VerifyAnswer>, Error> {
        self.get(Path::new("/v1/verify")).answer().await
    }
}

impl Commands<'_> {
    /// Does a command.
    pub async fn submit(&self, command: &CommandBody) -> Result<Answered<CommandAnswer>, Error> {
        self.0.post(Path::new("/v1/commands"), command).answer().await
    }

    /// What a command did.
    pub async fn show(&self, id: CommandId) -> Result<Answered<CommandAnswer>, Error> {
        self.0.get(Path::new("/v1/commands").part(id)).answer().await
    }
}
