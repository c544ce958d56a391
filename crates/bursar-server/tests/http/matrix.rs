//! Who may do what: every route, for every kind of principal. Made from the list of routes.

use bursar_server::{Action, Allowed, Declared, Role, declared};
use serde_json::{Value, json};

use crate::client::{Connection, request};
use crate::home::{Home, OPERATOR, on_both};
use crate::people::jwt;

on_both!(every_route_lets_in_whom_the_table_names_and_nobody_else);

/// A path of a route, with a part that reads well and is nowhere.
pub(crate) fn somewhere(route: &Declared) -> String {
    let digits = "0".repeat(26);
    let part = match route.path {
        path if path.starts_with("/v1/jobs/{") => format!("job_{digits}"),
        path if path.starts_with("/v1/holds") => format!("hold_{digits}"),
        path if path.starts_with("/v1/commands") => format!("cmd_{digits}"),
        path if path.starts_with("/v1/grants") => format!("grant_{digits}"),
        path if path.starts_with("/v1/workers") => format!("wkr_{digits}"),
        path if path.starts_with("/v1/keys") => format!("key_{digits}"),
        _ => "nowhere".into(),
    };
    let path = match route.path.split_once('{') {
        Some((before, after)) => format!("{before}{part}{}", after.split_once('}').unwrap().1),
        None => route.path.to_owned(),
    };
    match route.path {
        "/v1/events" => path + "?channels=queue:media",
        "/v1/holds" if route.method == "GET" => path + "?scope=room",
        "/v1/costs" => path + "?from=2026-11-01",
        _ => path,
    }
}

/// The body of a route's example, without the wish to wait.
pub(crate) fn body(route: &Declared) -> Value {
    let mut body = route.example.clone().unwrap_or(Value::Null);
    if body.get("wait_ms").is_some() {
        body["wait_ms"] = json!(0);
    }
    body
}

/// The roles that a user's token may say.
pub(crate) const SIGNED: [Role; 4] = [Role::Admin, Role::User, Role::Agent, Role::Viewer];

/// A user of a tenant, as a token says it that somebody else has signed.
pub(crate) fn user(tenant: &str, role: Role) -> String {
    jwt(&json!({ "sub": "ann", "exp": 4_000_000_000_i64, "tenant": tenant, "role": role.name() }))
}

async fn status(home: &Home, token: Option<&str>, tenant: Option<&str>, route: &Declared) -> u16 {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    headers.extend(tenant.map(|tenant| ("Bursar-Tenant", tenant)));
    let body = body(route);
    let text = (!body.is_null()).then(|| body.to_string());
    if text.is_some() {
        headers.push(("Content-Type", "application/json"));
    }
    // Only the head: a stream of events has no end.
    let text = request(&route.method, &somewhere(route), &headers, text.as_deref());
    Connection::open(home.address, &text).await.1.status
}

async fn every_route_lets_in_whom_the_table_names_and_nobody_else(home: Home) {
    let routes = declared();
    assert!(routes.len() > 60, "all routes are looked at");
    let everything = json!({ "queues": ["*"], "kinds": ["*"], "mutations": ["*"] });
    let (full, bare) = (home.worker("acme", everything).await, home.worker("acme", json!({})).await);
    let mut callers =
        vec![(Role::Operator, OPERATOR.to_owned(), true), (Role::Worker, full, true), (Role::Worker, bare, false)];
    for role in [Role::Admin, Role::User, Role::Agent, Role::Viewer, Role::Monitor] {
        callers.push((role, home.key("acme", role.name()).await, false));
    }
    callers.extend(SIGNED.map(|role| (role, user("acme", role), false)));
    // Whoever signs for users makes nobody more than that.
    let beyond: Vec<_> = Role::ALL.into_iter().filter(|role| !SIGNED.contains(role)).collect();
    assert_eq!(beyond, [Role::Operator, Role::Worker, Role::Monitor]);
    for role in beyond {
        let answer = home.ask_as(&user("acme", role), "GET", "/v1/budgets", Value::Null).await.is(401);
        assert_eq!(answer.problem(), "unauthorized", "a user who says to be a {}", role.name());
    }
    for route in &routes {
        let public = route.action == Action::Public;
        let name = format!("{} {}", route.method, route.path);
        let nobody = status(&home, None, None, route).await;
        assert_eq!(nobody == 401, !public, "{name} for nobody: {nobody}");
        let wrong = status(&home, Some("bak_nonsense"), None, route).await;
        // Who fails so often has to wait at some time.
        assert_eq!(matches!(wrong, 401 | 429), !public, "{name} for a wrong token: {wrong}");
        for (role, token, granted) in &callers {
            let expected = match route.action.allows(*role) {
                Allowed::Yes => true,
                Allowed::No => false,
                Allowed::Granted => *granted,
            };
            // A worker without capabilities is let in to work, and may work on nothing.
            let idle = *role == Role::Worker && !granted;
            let seen = status(&home, Some(token), None, route).await;
            assert_ne!(seen, 401, "{name} as {}", role.name());
            if !idle || !expected || public {
                assert_eq!(seen != 403, expected, "{name} as {}: {seen}", role.name());
            }
            assert!(seen < 500, "{name} as {}: {seen}", role.name());
            let elsewhere = status(&home, Some(token), Some("globex"), route).await;
            let may = expected && (*role == Role::Operator || public);
            if !public {
                assert_eq!(elsewhere != 403, may, "{name} as {} of another tenant: {elsewhere}", role.name());
            }
        }
    }
    home.stop().await;
}

#[test]
fn every_role_and_action_is_in_the_table_of_the_documentation() {
    let page = include_str!("../../../../docs/server.md");
    assert!(
        page.contains(&bursar_server::roles_table()),
        "docs/server.md has another table than\n{}",
        bursar_server::roles_table()
    );
    for route in declared() {
        assert!(Action::ALL.contains(&route.action));
    }
}
