//! PostgreSQL types that the driver does not support.

use bursar_core::time::Time;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// The location of a row version (`tid`): page and item. A look-up by it reads no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ctid([u8; 6]);

const TID: Oid = Oid(27);
const TID_ARRAY: Oid = Oid(1010);

impl Type<Postgres> for Ctid {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID)
    }
}

impl PgHasArrayType for Ctid {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TID_ARRAY)
    }
}

impl Encode<'_, Postgres> for Ctid {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Ctid {
    fn decode(value: PgValueRef<'_>) -> Result<Ctid, BoxDynError> {
        Ok(Ctid(binary(&value)?.try_into()?))
    }
}

/// `tid`, declared by name: the driver then looks the type up before it parses the statement. Its only value is null.
pub(super) struct CtidByName;

/// `tid[]`, declared by name like [`CtidByName`].
pub(super) struct CtidArrayByName;

macro_rules! null_by_name {
    ($type:ty, $name:literal) => {
        impl Type<Postgres> for $type {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_name($name)
            }
        }

        impl Encode<'_, Postgres> for $type {
            fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                Ok(IsNull::Yes)
            }
        }
    };
}

null_by_name!(CtidByName, "tid");
null_by_name!(CtidArrayByName, "_tid");

/// An instant of the server's clock (`timestamptz`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp(pub(super) Time);

const TIMESTAMPTZ: Oid = Oid(1184);
/// The microseconds from the epoch of `Time`, 1970, to that of PostgreSQL, 2000.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Decode<'_, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'_>) -> Result<Timestamp, BoxDynError> {
        let micros = i64::from_be_bytes(binary(&value)?.try_into()?);
        Ok(Timestamp(Time::from_micros(micros.saturating_add(EPOCH_MICROS))))
    }
}

fn binary<'r>(value: &PgValueRef<'r>) -> Result<&'r [u8], BoxDynError> {
    match value.format() {
        PgValueFormat::Binary => value.as_bytes(),
        PgValueFormat::Text => Err("expected the binary format".into()),
    }
}
