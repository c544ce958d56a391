//! Values of PostgreSQL's that its driver has no name for.

use bursar_core::time::Time;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// A value of a type that is so many bytes, by the numbers that PostgreSQL has for it and for arrays of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw<const OID: u32, const ARRAY: u32, const BYTES: usize>([u8; BYTES]);

/// Where a row lies (`tid`): the fastest way to a row that is locked, since nobody moves it meanwhile.
pub(super) type Place = Raw<27, 1010, 6>;

/// The transaction that wrote a row as it is (`xid`): a row that lies where it lay, of the same writer, was not changed meanwhile.
pub(super) type Writer = Raw<28, 1011, 4>;

impl<const OID: u32, const ARRAY: u32, const BYTES: usize> Type<Postgres> for Raw<OID, ARRAY, BYTES> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(OID))
    }
}

impl<const OID: u32, const ARRAY: u32, const BYTES: usize> PgHasArrayType for Raw<OID, ARRAY, BYTES> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(ARRAY))
    }
}

impl<const OID: u32, const ARRAY: u32, const BYTES: usize> Encode<'_, Postgres> for Raw<OID, ARRAY, BYTES> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

impl<const OID: u32, const ARRAY: u32, const BYTES: usize> Decode<'_, Postgres> for Raw<OID, ARRAY, BYTES> {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Raw(binary(&value)?.try_into()?))
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
