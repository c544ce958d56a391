//! Checks of commands that need no stored row.

use super::checks::{check_not_negative, check_ttl};
use super::{Charge, Command, Settle};
use crate::bounds::{CHARGES_MAX, JOBS_MAX, LIMITS_MAX, REDEMPTIONS_MAX, REFERENCES_MAX};
use crate::budget::check_limits;
use crate::hold::OnExpiry;
use crate::refusal::Invalid;
use crate::time::Span;

impl Command {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        if self.charges.is_empty() && self.redeem.is_empty() && self.jobs.is_empty() && self.references.is_empty() {
            return Err(Invalid::new("charges", "must not be empty without a redemption, a job or a reference"));
        }
        for (field, count, most) in [
            ("charges", self.charges.len(), CHARGES_MAX),
            ("redeem", self.redeem.len(), REDEMPTIONS_MAX),
            ("jobs", self.jobs.len(), JOBS_MAX),
            ("references", self.references.len(), REFERENCES_MAX),
        ] {
            if count > most {
                return Err(Invalid::new(field, format!("has {count} entries; at most {most} are allowed")));
            }
        }
        for (index, charge) in self.charges.iter().enumerate() {
            charge.check().map_err(|invalid| invalid.of_entry("charges", index))?;
        }
        for (index, redemption) in self.redeem.iter().enumerate() {
            redemption.purpose.check_own().map_err(|invalid| invalid.of_entry("redeem", index))?;
        }
        for (index, job) in self.jobs.iter().enumerate() {
            job.check(self.redeem.len()).map_err(|invalid| invalid.of_entry("jobs", index))?;
        }
        self.check_on_expiry()?;
        match &self.settle {
            Settle::Hold { .. } if self.charges.is_empty() => {
                Err(Invalid::new("charges", "must not be empty: there is nothing to hold"))
            }
            Settle::Hold { ttl: Some(span) } => check_ttl("ttl_ms", *span, Span::from_micros(i64::MAX)),
            Settle::Job if self.jobs.is_empty() => {
                Err(Invalid::new("jobs", "must not be empty: no job would settle the hold"))
            }
            Settle::Job if self.charges.is_empty() => {
                Err(Invalid::new("charges", "must not be empty: there is nothing for the job to settle"))
            }
            Settle::Job if self.jobs.len() > 1 => {
                let kinds: Vec<&str> = self.jobs.iter().take(3).map(|job| job.kind.as_str()).collect();
                let more = if self.jobs.len() > kinds.len() { ", …" } else { "" };
                let problem = format!(
                    "must be one job, whose end settles the hold; these are {} ({}{more}): submit a command with charges \
                     of its own for each",
                    self.jobs.len(),
                    kinds.join(", ")
                );
                Err(Invalid::new("jobs", problem))
            }
            _ => Ok(()),
        }
    }

    fn check_on_expiry(&self) -> Result<(), Invalid> {
        let OnExpiry::Charge(amount) = self.on_expiry else { return Ok(()) };
        if !matches!(self.settle, Settle::Hold { .. }) {
            return Err(Invalid::new("on_expiry", "is only for charges that are held for a time to live"));
        }
        check_not_negative("on_expiry.charge", amount)?;
        match self.charges.iter().find(|charge| charge.amount < amount) {
            Some(charge) => {
                let problem =
                    format!("must be at most the held amount, which is {} on {}", charge.amount, charge.scope);
                Err(Invalid::new("on_expiry.charge", problem))
            }
            None => Ok(()),
        }
    }
}

impl Charge {
    fn check(&self) -> Result<(), Invalid> {
        check_not_negative("amount", self.amount)?;
        if self.limits.len() > LIMITS_MAX {
            return Err(Invalid::new("limits", format!("has more than {LIMITS_MAX} entries")));
        }
        check_limits(&self.limits)?;
        match self.default.as_deref() {
            Some(budget) if !budget.by_default || budget.parent.is_some() => {
                Err(Invalid::new("default", "must be marked as a default, and have no parent"))
            }
            Some(budget) => budget.check().map_err(|invalid| invalid.within("default")),
            None => Ok(()),
        }
    }
}
