//! How long the rows of single tenants are kept, as one line of text: `acme.holds=365d, acme.costs=30d`.

use std::collections::BTreeMap;

use bursar::{Span, Tenant, TenantRetention};

/// The rows whose time can be set for a tenant.
const KINDS: [&str; 3] = ["holds", "grants", "costs"];

pub(super) type TenantsKept = BTreeMap<Tenant, TenantRetention>;

/// Reads items of a tenant, a kind of row and a duration within the bounds of the setting for all tenants. The error names the item.
pub(super) fn read(text: &str, bounds: [(Span, Span); 3]) -> Result<TenantsKept, String> {
    let mut tenants = TenantsKept::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (tenant, place, kept) = parts(item).ok_or_else(|| {
            format!(
                "has {item:?}; an item is TENANT.KIND=DURATION, such as acme.holds=365d, and a kind is one of {}",
                KINDS.join(", ")
            )
        })?;
        let (least, most) = bounds[place];
        if kept < least || kept > most {
            return Err(format!("has {item:?}; {} are kept for {least} to {most}", KINDS[place]));
        }
        let own = tenants.entry(tenant).or_default();
        if [&mut own.holds, &mut own.grants, &mut own.costs][place].replace(kept).is_some() {
            return Err(format!("has {item:?} after another time for the same rows"));
        }
    }
    Ok(tenants)
}

/// Returns the tenant, the index of the kind and the duration of an item.
fn parts(item: &str) -> Option<(Tenant, usize, Span)> {
    let (what, kept) = item.rsplit_once('=')?;
    let (tenant, kind) = what.trim().rsplit_once('.')?;
    let place = KINDS.iter().position(|known| *known == kind)?;
    Some((Tenant::new(tenant.trim()).ok()?, place, kept.trim().parse().ok()?))
}

pub(super) fn show(tenants: &TenantsKept) -> String {
    let mut items = Vec::new();
    for (tenant, own) in tenants {
        for (kind, kept) in KINDS.iter().zip([own.holds, own.grants, own.costs]) {
            items.extend(kept.map(|kept| format!("{tenant}.{kind}={kept}")));
        }
    }
    items.join(", ")
}
