//! The values that fields of events have when the journal leaves them out.

use crate::payload::Payload;
use crate::time::Time;

pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

pub(super) fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

pub(super) fn never() -> Time {
    Time::NEVER
}

pub(super) fn is_never(time: &Time) -> bool {
    *time == Time::NEVER
}

pub(super) fn is_null(payload: &Payload) -> bool {
    *payload == Payload::default()
}
