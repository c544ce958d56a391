//! The permission table: every route with every kind of principal, generated from the list of routes.

use bursar_server::{Action, Allowed, Role, RouteInfo, route_list};
use serde_json::{Value, json};

use crate::authentication::jwt;
use crate::client::{Connection, request};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(every_route_follows_the_permission_table);

/// Returns a path of a route with a valid parameter that names nothing.
pub(crate) fn example_path(route: &RouteInfo) -> String {
    let digits = "0".repeat(26);
    let part = match route.path {
        path if path.starts_with("/v1/jobs/{") => format!("job_{digits}"),
        path if path.starts_with("/v1/holds") => format!("hold_{digits}"),
        path if path.starts_with("/v1/commands") => format!("cmd_{digits}"),
        path if path.starts_with("/v1/blobs") => format!("blob_{digits}"),
        path if path.starts_with("/v1/grants") => format!("grant_{digits}"),
        path if path.starts_with("/v1/workers") => format!("wkr_{digits}"),
        path if path.starts_with("/v1/keys") || path.starts_with("/v1/links") => format!("key_{digits}"),
        _ => "nowhere".into(),
    };
    let path = with_parameters(route.path, &part);
    match route.path {
        "/v1/events" => path + "?channels=queue:media",
        "/v1/holds" if route.method == "GET" => path + "?scope=room",
        "/v1/costs" => path + "?from=2026-11-01",
        _ => path,
    }
}

/// Fills in the parameters of a path. If it has two, the second one is a name.
pub(crate) fn with_parameters(path: &str, first: &str) -> String {
    let mut values = [first, "second"].into_iter();
    let mut filled = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        filled.extend([before, values.next().expect("a path has at most two parameters")]);
        rest = after.split_once('}').unwrap().1;
    }
    filled + rest
}

/// Returns the example body of a route, without waiting.
pub(crate) fn body(route: &RouteInfo) -> Value {
    let mut body = route.example.clone().unwrap_or(Value::Null);
    if body.get("wait_ms").is_some() {
        body["wait_ms"] = json!(0);
    }
    body
}

/// The roles that a JWT may have.
pub(crate) const SIGNED: [Role; 4] = [Role::Admin, Role::User, Role::Agent, Role::Viewer];

/// Returns a JWT of a user of a tenant.
pub(crate) fn user(tenant: &str, role: Role) -> String {
    jwt(&json!({ "sub": "ann", "exp": 4_000_000_000_i64, "tenant": tenant, "role": role.name() }))
}

async fn status(server: &TestServer, token: Option<&str>, tenant: Option<&str>, route: &RouteInfo) -> u16 {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    headers.extend(tenant.map(|tenant| ("Bursar-Tenant", tenant)));
    let body = body(route);
    let text = (!body.is_null()).then(|| body.to_string());
    if text.is_some() {
        headers.push(("Content-Type", "application/json"));
    }
    // Only the head is read, because an event stream does not end.
    let text = request(&route.method, &example_path(route), &headers, text.as_deref());
    Connection::open(server.address, &text).await.1.status
}

async fn every_route_follows_the_permission_table(server: TestServer) {
    let routes = route_list();
    assert!(routes.len() > 60, "the list of routes is complete");
    let blobs = json!({ "read": ["*"], "write": ["*"] });
    let everything = json!({ "queues": ["*"], "kinds": ["*"], "mutations": ["*"], "events": ["*"], "blobs": blobs });
    let (full, bare) = (server.worker("acme", everything).await, server.worker("acme", json!({})).await);
    let mut callers =
        vec![(Role::Operator, OPERATOR.to_owned(), true), (Role::Worker, full, true), (Role::Worker, bare, false)];
    for role in [Role::Admin, Role::User, Role::Agent, Role::Viewer, Role::Monitor] {
        callers.push((role, server.key("acme", role.name()).await, false));
    }
    callers.extend(SIGNED.map(|role| (role, user("acme", role), false)));
    // A JWT cannot have any other role.
    let beyond: Vec<_> = Role::ALL.into_iter().filter(|role| !SIGNED.contains(role)).collect();
    assert_eq!(beyond, [Role::Operator, Role::Worker, Role::Monitor]);
    for role in beyond {
        let answer = server.call_as(&user("acme", role), "GET", "/v1/budgets", Value::Null).await.is(401);
        assert_eq!(answer.problem(), "unauthorized", "a JWT with the role {}", role.name());
    }
    for route in &routes {
        let public = route.action == Action::Public;
        let name = format!("{} {}", route.method, route.path);
        let anonymous = status(&server, None, None, route).await;
        assert_eq!(anonymous == 401, !public, "{name} without a token: {anonymous}");
        let invalid = status(&server, Some("bak_nonsense"), None, route).await;
        // Many invalid tokens are rate limited.
        assert_eq!(matches!(invalid, 401 | 429), !public, "{name} with an invalid token: {invalid}");
        for (role, token, granted) in &callers {
            let expected = match route.action.allows(*role) {
                Allowed::Yes => true,
                Allowed::No => false,
                Allowed::Granted => *granted,
            };
            // A worker without capabilities passes the table, but may not work on anything.
            let idle = *role == Role::Worker && !granted;
            let seen = status(&server, Some(token), None, route).await;
            assert_ne!(seen, 401, "{name} as {}", role.name());
            if !idle || !expected || public {
                assert_eq!(seen != 403, expected, "{name} as {}: {seen}", role.name());
            }
            assert!(seen < 500, "{name} as {}: {seen}", role.name());
            let elsewhere = status(&server, Some(token), Some("globex"), route).await;
            let may = expected && (*role == Role::Operator || public);
            if !public {
                assert_eq!(elsewhere != 403, may, "{name} as {} of another tenant: {elsewhere}", role.name());
            }
        }
    }
    server.stop().await;
}

#[test]
fn the_documentation_has_the_permission_table() {
    let page = include_str!("../../../../docs/server.md");
    assert!(
        page.contains(&bursar_server::roles_table()),
        "put this table into docs/server.md:\n{}",
        bursar_server::roles_table()
    );
    for route in route_list() {
        assert!(Action::ALL.contains(&route.action));
    }
}
