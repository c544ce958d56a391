//! The reasons of refusals as words, for counters.

use super::{Refusal, Violation};

/// Defines the reasons, once for each variant of a refusal that has one of its own.
macro_rules! reasons {
    ($($variant:ident = $name:literal,)*) => {
        /// Why a request was refused, without what it concerns. The set is closed, so that a counter can have one value for each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RefusalReason {
            /// A limit leaves too few units.
            Limit,
            /// A scope is frozen.
            Frozen,
            /// A token was refused.
            Grant,
            $(#[doc = concat!("[`Refusal::", stringify!($variant), "`].")] $variant,)*
        }

        impl RefusalReason {
            /// Every reason.
            pub const ALL: &[RefusalReason] =
                &[RefusalReason::Limit, RefusalReason::Frozen, RefusalReason::Grant, $(RefusalReason::$variant),*];

            /// Returns its name: `limit`.
            pub fn as_str(self) -> &'static str {
                match self {
                    RefusalReason::Limit => "limit",
                    RefusalReason::Frozen => "frozen",
                    RefusalReason::Grant => "grant",
                    $(RefusalReason::$variant => $name,)*
                }
            }
        }

        impl Refusal {
            /// Returns the reason. Of several violations the first one counts.
            pub fn reason(&self) -> RefusalReason {
                match self {
                    Refusal::Refused(violations) => match violations.first() {
                        Some(Violation::Frozen { .. }) => RefusalReason::Frozen,
                        Some(Violation::Grant { .. }) => RefusalReason::Grant,
                        Some(Violation::Limit { .. }) | None => RefusalReason::Limit,
                    },
                    $(Refusal::$variant { .. } => RefusalReason::$variant,)*
                }
            }
        }
    };
}

reasons! {
    UnknownScope = "unknown_scope",
    UnknownHold = "unknown_hold",
    UnknownGrant = "unknown_grant",
    AlreadySettled = "already_settled",
    HoldExpired = "hold_expired",
    LateRefused = "late_refused",
    OverrunRefused = "overrun_refused",
    LifeExceeded = "life_exceeded",
    OwnedByJob = "owned_by_job",
    NoSuchCharge = "no_such_charge",
    ActualAmbiguous = "actual_ambiguous",
    AlreadyRedeemed = "already_redeemed",
    GrantOpen = "grant_open",
    GrantOver = "grant_over",
    Changed = "changed",
    KeyReused = "key_reused",
    TooManyWindows = "too_many_windows",
    Cycle = "cycle",
    BudgetInUse = "budget_in_use",
    UnitInUse = "unit_in_use",
    TooDeep = "too_deep",
    UnknownZone = "unknown_zone",
    TooManyScopes = "too_many_scopes",
    UnknownJob = "unknown_job",
    UnknownSchedule = "unknown_schedule",
    UnknownBlob = "unknown_blob",
    UploadOver = "upload_over",
    BlobTooLarge = "blob_too_large",
    BlobMismatch = "blob_mismatch",
    TooManyReferences = "too_many_references",
    LeaseLost = "lease_lost",
    ForeignLease = "foreign_lease",
    ForeignCharge = "foreign_charge",
    UsageRecorded = "usage_recorded",
    BlobsRecorded = "blobs_recorded",
    WrongState = "wrong_state",
    UsageAmbiguous = "usage_ambiguous",
    Overflow = "overflow",
    Invalid = "invalid",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::name::{Purpose, Scope};
    use crate::refusal::Invalid;

    #[test]
    fn every_reason_has_a_name_and_a_place_of_its_own() {
        let names: BTreeSet<&str> = RefusalReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), RefusalReason::ALL.len());
        for (place, reason) in RefusalReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, place, "{reason:?}");
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(reason.as_str().bytes().all(plain), "{reason:?}");
        }
    }

    #[test]
    fn the_first_violation_is_the_reason() {
        let scope = Scope::new("a").expect("a name");
        let frozen = Violation::Frozen { scope: scope.clone() };
        let grant =
            Violation::Grant { purpose: Purpose::new("p").expect("a name"), fault: crate::grant::GrantFault::Unknown };
        assert_eq!(Refusal::Refused(vec![frozen.clone(), grant.clone()]).reason(), RefusalReason::Frozen);
        assert_eq!(Refusal::Refused(vec![grant, frozen]).reason(), RefusalReason::Grant);
        assert_eq!(Refusal::UnknownScope { scope }.reason(), RefusalReason::UnknownScope);
        assert_eq!(Refusal::from(Invalid::new("a", "b")).reason().as_str(), "invalid");
    }
}
