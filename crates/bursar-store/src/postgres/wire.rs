//! Values of PostgreSQL's that its driver has no name for.

use bursar_core::time::Time;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// Where a row lies: the fastest way to a row that is locked, since nobody moves it meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place([u8; 6]);

const TID: Oid = Oid(27);
const TID_ARRAY: Oid = Oid(1010);

impl Type<Postgres> for Place {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID)
    }
}

impl PgHasArrayType for Place {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID_ARRAY)
    }
}

impl Encode<'_, Postgres> for Place {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Place {
    fn decode(value: PgValueRef<'_>) -> Result<Place, BoxDynError> {
        Ok(Place(binary(&value)?.try_into()?))
    }
}

/// The transaction that wrote a row as it is: a row that lies where it lay, of the same writer, was not changed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer([u8; 4]);

const XID: Oid = Oid(28);
const XID_ARRAY: Oid = Oid(1011);

impl Type<Postgres> for Writer {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XID)
    }
}

impl PgHasArrayType for Writer {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XID_ARRAY)
    }
}

impl Encode<'_, Postgres> for Writer {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Writer {
    fn decode(value: PgValueRef<'_>) -> Result<Writer, BoxDynError> {
        Ok(Writer(binary(&value)?.try_into()?))
    }
}

/// An instant of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) Time);

const TIMESTAMPTZ: Oid = Oid(1184);
/// From 1970, which `Time` counts from, to 2000, which PostgreSQL counts from.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

impl Type<Postgres> for Stamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Decode<'_, Postgres> for Stamp {
    fn decode(value: PgValueRef<'_>) -> Result<Stamp, BoxDynError> {
        let micros = i64::from_be_bytes(binary(&value)?.try_into()?);
        Ok(Stamp(Time::from_micros(micros.saturating_add(EPOCH_MICROS))))
    }
}

fn binary<'r>(value: &PgValueRef<'r>) -> Result<&'r [u8], BoxDynError> {
    match value.format() {
        PgValueFormat::Binary => value.as_bytes(),
        PgValueFormat::Text => Err("it was asked for in its binary form".into()),
    }
}
