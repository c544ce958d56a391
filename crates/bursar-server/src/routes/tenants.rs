//! `/v1/tenants`: the tenants of the installation.

use axum::http::Method;
use bursar::Tenant;

use crate::call::Input;
use crate::principal::permissions::Action;
use crate::reply::Reply;
use crate::route::Route;
use crate::routes::{PageQuery, name_cursor, page_size};
use crate::wire::Page;
use crate::wire::problem::Problem;
use crate::wire::role::TenantAnswer;

pub(super) fn routes() -> Vec<Route> {
    let read = Action::TenantsRead;
    vec![
        Route::new(
            Method::GET,
            "/v1/tenants",
            read,
            "List the tenants that have budgets or other scopes, by name",
            list,
        )
        .pages(),
        Route::new(
            Method::GET,
            "/v1/tenants/{name}",
            read,
            "Check that a tenant has a scope, a queue, a schedule or a token",
            show,
        ),
    ]
}

async fn list(input: Input<(), PageQuery>) -> Result<Reply<Page<TenantAnswer>>, Problem> {
    let limit = page_size(input.query.limit)?;
    let after: Option<Tenant> = name_cursor(input.query.cursor.as_deref())?;
    let found = input.call.app.bursar.tenants(after.as_ref(), limit).await?;
    let full = found.len() >= limit;
    let items = found.into_iter().map(|name| TenantAnswer { name }).collect();
    Ok(Reply::new(Page::of(items, full, |tenant: &TenantAnswer| tenant.name.to_string())))
}

async fn show(input: Input<Tenant>) -> Result<Reply<TenantAnswer>, Problem> {
    let name = input.parameter;
    match input.call.app.bursar.tenant(&name)?.tenant_is_known().await? {
        true => Ok(Reply::new(TenantAnswer { name })),
        false => Err(Problem::not_found(format_args!("tenant {name}"))),
    }
}
