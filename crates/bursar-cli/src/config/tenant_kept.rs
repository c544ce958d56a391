//! How long the rows of single tenants are kept, as one line of text: `acme.holds=365d, acme.costs=30d`.

use std::collections::BTreeMap;

use bursar::{Span, Tenant, TenantRetention};

/// The rows whose time can be set for a tenant.
const KINDS: [&str; 3] = ["holds", "grants", "costs"];

pub(super) type TenantsKept = BTreeMap<Tenant, TenantRetention>;

/// Returns `None` if an item is not a tenant, a kind of row and a duration within the bounds of the setting for all tenants.
pub(super) fn read(text: &str, bounds: [(Span, Span); 3]) -> Option<TenantsKept> {
    let mut tenants = TenantsKept::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (what, kept) = item.rsplit_once('=')?;
        let (tenant, kind) = what.trim().rsplit_once('.')?;
        let kept: Span = kept.trim().parse().ok()?;
        let place = KINDS.iter().position(|known| *known == kind)?;
        let (least, most) = bounds[place];
        if kept < least || kept > most {
            return None;
        }
        let own = tenants.entry(Tenant::new(tenant.trim()).ok()?).or_default();
        *[&mut own.holds, &mut own.grants, &mut own.costs][place] = Some(kept);
    }
    Some(tenants)
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
