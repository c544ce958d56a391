//! Isolation of tenants on every route: another tenant's resource gets the same response as one that never existed.

use bursar_server::{Action, Role, RouteInfo, route_list};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::client::{Connection, Response, request};
use crate::permissions::{SIGNED, body, user, with_parameters};
use crate::test_server::{OPERATOR, TestServer, on_both_engines};

on_both_engines!(another_tenants_resources_look_nonexistent, channels_of_another_tenant_are_silent);

/// Has letters that ids do not have, so that no id contains it by chance.
const OWNER_TENANT: &str = "polonium";
const OTHER_TENANT: &str = "globex";
/// Longer than these tests take.
const LONG_MS: u64 = 3_600_000;

async fn another_tenants_resources_look_nonexistent(server: TestServer) {
    let (owner, outsiders) = (Owner::of(&server).await, Outsider::all(&server).await);
    // What is public belongs to no tenant, and only operators may ask for tenants.
    let of_none = [Action::Public, Action::TenantsRead];
    let of_tenants = |route: &RouteInfo| route.path.contains('{') && !of_none.contains(&route.action);
    let routes: Vec<_> = route_list().into_iter().filter(of_tenants).collect();
    assert!(routes.len() > 35, "the list of routes is complete");
    for (number, route) in routes.iter().enumerate() {
        let name = format!("{} {}", route.method, route.path);
        // Each principal gets its own resource to try; a shared one could be changed by an earlier principal.
        let make = (0..outsiders.len()).map(|outsider| owner.make(&server, route, number * 100 + outsider));
        let resources = join_all(make).await;
        let (before, journal) = (owner.states(&server, &resources).await, owner.journal(&server).await);
        join_all(
            outsiders
                .iter()
                .zip(&resources)
                .map(|(outsider, resource)| outsider.sees_nothing(&server, route, resource)),
        )
        .await;
        for ((before, after), outsider) in before.iter().zip(owner.states(&server, &resources).await).zip(&outsiders) {
            assert_eq!(*before, after, "{name} as {}", outsider.name);
        }
        assert_eq!(journal, owner.journal(&server).await, "{name}: the journal of {OWNER_TENANT} is unchanged");
        // The request works for the owner. Reports need the worker that holds the lease.
        let token = if route.action == Action::JobsWork { &owner.worker } else { &owner.admin };
        let own = call_route(&server, token, &[], route, &resources[0], &resources[0].id).await;
        // Nothing was uploaded that could be committed, which only the owner is told.
        let uncommitted = route.path.ends_with("/commit") && own.status == 409;
        assert!(own.status < 300 || uncommitted, "{name} as its owner: {own:?}");
    }
    server.stop().await;
}

/// A resource of the owner.
struct Resource {
    /// The path of its list.
    place: &'static str,
    id: String,
    /// The fence of its lease, for a leased job.
    fence: Value,
}

impl Resource {
    /// Returns an id of the same form that never existed.
    fn never(&self) -> String {
        let never = match self.id.strip_prefix("thing-") {
            Some(number) => format!("never-{number}"),
            None => format!("{}zzzz", &self.id[..self.id.len() - 4]),
        };
        assert_ne!(never, self.id);
        never
    }
}

async fn does(server: &TestServer, token: &str, method: &str, path: &str, body: Value) -> Response {
    let done = server.call_as(token, method, path, body).await;
    assert!(done.status < 300, "{method} {path}: {done:?}");
    done
}

/// The tenant that owns the resources.
struct Owner {
    admin: String,
    worker: String,
}

impl Owner {
    async fn of(server: &TestServer) -> Owner {
        let works = json!({ "queues": ["*"], "kinds": ["*"], "events": ["*"] });
        Owner { admin: server.key(OWNER_TENANT, "admin").await, worker: server.worker(OWNER_TENANT, works).await }
    }

    /// Creates a resource for a route, in a state that the route accepts. A route for a new kind of resource panics here until
    /// this function can create it.
    async fn make(&self, server: &TestServer, route: &RouteInfo, number: usize) -> Resource {
        let (place, name) = (route.path.split("/{").next().unwrap(), format!("thing-{number:06}"));
        let admin = async |method: &str, path: &str, body: Value| does(server, &self.admin, method, path, body).await;
        let id = |made: Response| made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
        let limits = json!([{ "amount": 1_000_000, "window": "lifetime" }]);
        let charges = json!([{ "scope": "room", "amount": 1, "limits": limits }]);
        let act = route.path.rsplit_once("}/").map_or("", |(_, act)| act);
        let mut fence = Value::Null;
        let id = match place {
            "/v1/budgets" => {
                admin("PUT", &format!("{place}/{name}"), json!({ "limits": limits })).await;
                let spend = json!({ "charges": [{ "scope": name, "amount": 1_000 }] });
                admin("POST", "/v1/commands", spend).await;
                if act == "unfreeze" {
                    admin("POST", &format!("{place}/{name}/freeze"), json!({})).await;
                }
                name
            }
            "/v1/commands" => id(admin("POST", place, json!({ "charges": charges })).await),
            "/v1/holds" => id(admin("POST", place, json!({ "charges": charges, "ttl_ms": LONG_MS })).await),
            "/v1/grants" => {
                let body = json!({ "purpose": "p", "subject": "s", "payload": "secret", "ttl_ms": LONG_MS });
                let grant = id(admin("POST", place, body).await);
                if act == "erase" {
                    admin("DELETE", &format!("{place}/{grant}"), Value::Null).await;
                }
                grant
            }
            "/v1/jobs" => {
                let job = id(admin("POST", place, json!({ "queue": name, "kind": "k", "payload": 1 })).await);
                fence = self.bring_to(server, &job, &name, act).await;
                job
            }
            "/v1/queues" => {
                admin("PUT", &format!("{place}/{name}"), json!({ "concurrency": 3 })).await;
                name
            }
            "/v1/schedules" => {
                let body = json!({ "cron": "@yearly", "queue": "q", "kind": "k" });
                admin("PUT", &format!("{place}/{name}"), body).await;
                name
            }
            "/v1/namespaces" => {
                admin("PUT", &format!("{place}/{name}"), json!({ "bytes_max": 7 })).await;
                name
            }
            "/v1/blobs" if act == "commit" => {
                let sha256 = format!("{number:064x}");
                let body = json!({ "namespace": "media", "size": 5, "sha256": sha256 });
                let signed = admin("POST", "/v1/blobs/presign", body).await.json();
                signed["blob"]["id"].as_str().unwrap().to_owned()
            }
            "/v1/blobs" => {
                let upload = format!("{place}?namespace=media");
                let made = server.send_as(&self.admin, &[], "POST", &upload, Some(&name)).await.is(201);
                let blob = id(made);
                if act == "restore" {
                    admin("DELETE", &format!("{place}/{blob}"), Value::Null).await;
                }
                blob
            }
            "/v1/blobs/uploads" => {
                let headers = [("Tus-Resumable", "1.0.0"), ("Upload-Length", "5")];
                id(server.send_as(&self.admin, &headers, "POST", place, None).await.is(201))
            }
            "/v1/links" => {
                let made = server.send_as(&self.admin, &[], "POST", "/v1/blobs", Some(&name)).await.is(201);
                id(admin("POST", &format!("/v1/blobs/{}/link", id(made)), json!({})).await)
            }
            "/v1/workers" => id(admin("POST", place, json!({ "name": name })).await),
            "/v1/keys" => id(admin("POST", place, json!({ "name": name, "role": "user" })).await),
            _ => panic!("{} {}: add here how its resource is created", route.method, route.path),
        };
        Resource { place, id, fence }
    }

    /// Brings a job into a state that an action accepts; returns the fence of its lease, if it has one.
    async fn bring_to(&self, server: &TestServer, job: &str, queue: &str, act: &str) -> Value {
        let works =
            matches!(act, "heartbeat" | "progress" | "complete" | "fail" | "snooze" | "return" | "attempts" | "events");
        if !works && !matches!(act, "retry" | "discard" | "erase") {
            return Value::Null;
        }
        // Leased by a worker, so that the server's cache of leases contains the job.
        let lease = json!({ "queues": [queue], "lease_ms": LONG_MS });
        let leased = does(server, &self.worker, "POST", "/v1/jobs/lease", lease).await.json();
        assert_eq!(leased["jobs"][0]["id"], job);
        let fence = leased["jobs"][0]["lease"]["fence"].clone();
        if !works {
            let dies = json!({ "fence": fence, "error": { "kind": "bad" }, "retryable": false });
            does(server, &self.worker, "POST", &format!("/v1/jobs/{job}/fail"), dies).await;
        }
        fence
    }

    /// Returns the current state of the resources, which are all of one kind.
    async fn states(&self, server: &TestServer, resources: &[Resource]) -> Vec<Value> {
        let read = async |path: &str| does(server, &self.admin, "GET", path, Value::Null).await.json();
        let place = resources[0].place;
        // Grants and links are read from their lists.
        if ["/v1/grants", "/v1/links"].contains(&place) {
            let list = read(&format!("{place}?limit=1000")).await;
            let listed =
                |id: &str| list["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap().clone();
            return resources.iter().map(|resource| listed(&resource.id)).collect();
        }
        let (place, end) = match place {
            "/v1/blobs" | "/v1/blobs/uploads" => ("/v1/blobs", "/meta"),
            place => (place, ""),
        };
        join_all(resources.iter().map(async |resource| read(&format!("{place}/{}{end}", resource.id)).await)).await
    }

    /// Returns the number of events in the journal, and the last one.
    async fn journal(&self, server: &TestServer) -> (usize, Value) {
        let (mut count, mut last, mut after) = (0, Value::Null, "0".to_owned());
        loop {
            let path = format!("/v1/journal?limit=1000&after={after}");
            let page = does(server, &self.admin, "GET", &path, Value::Null).await.json();
            let items = page["items"].as_array().unwrap();
            count += items.len();
            last = items.last().unwrap_or(&last).clone();
            match page["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return (count, last),
            }
        }
    }
}

/// A principal of another tenant.
struct Outsider {
    name: String,
    token: String,
    headers: &'static [(&'static str, &'static str)],
}

impl Outsider {
    /// Returns every kind of principal.
    async fn all(server: &TestServer) -> Vec<Outsider> {
        let outsider = |name: &str, token: String| Outsider { name: name.to_owned(), token, headers: &[] };
        let blobs = json!({ "read": ["*"], "write": ["*"] });
        let everything =
            json!({ "queues": ["*"], "kinds": ["*"], "mutations": ["*"], "events": ["*"], "blobs": blobs });
        let mut all = vec![
            Outsider { headers: &[("Bursar-Tenant", OTHER_TENANT)], ..outsider("operator", OPERATOR.to_owned()) },
            outsider("worker with all capabilities", server.worker(OTHER_TENANT, everything).await),
            outsider("worker without capabilities", server.worker(OTHER_TENANT, json!({})).await),
        ];
        let known = [Role::Operator, Role::Worker];
        for role in Role::ALL.into_iter().filter(|role| !known.contains(role)) {
            all.push(outsider(&format!("{} by key", role.name()), server.key(OTHER_TENANT, role.name()).await));
        }
        all.extend(SIGNED.map(|role| outsider(&format!("{} by token", role.name()), user(OTHER_TENANT, role))));
        all
    }

    /// Asserts that the owner's resource gets the same response as one that never existed.
    async fn sees_nothing(&self, server: &TestServer, route: &RouteInfo, resource: &Resource) {
        let never = resource.never();
        let foreign = call_route(server, &self.token, self.headers, route, resource, &resource.id).await;
        let missing = call_route(server, &self.token, self.headers, route, resource, &never).await;
        let name = format!("{} {} as {}", route.method, route.path, self.name);
        assert!(!foreign.text.contains(OWNER_TENANT), "{name} reveals the owner: {foreign:?}");
        assert_eq!(comparable(&foreign, &resource.id), comparable(&missing, &never), "{name}");
        let by_id = route.path.contains("{id}");
        assert!(!by_id || matches!(foreign.status, 403 | 404), "{name}: {foreign:?}");
    }
}

/// Returns a response without the id of the resource, the request id and the time.
fn comparable(answer: &Response, resource: &str) -> (u16, Vec<(String, String)>, Value) {
    let own = ["x-request-id", "traceparent", "date"];
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| !own.contains(&name.to_lowercase().as_str()));
    // A name of the caller's own tenant may be suggested, in place of any that is missing.
    let text = match answer
        .text
        .split_once("; did you mean ")
        .and_then(|(before, rest)| Some((before, rest.split_once('?')?.1)))
    {
        Some((before, after)) => format!("{before}{after}"),
        None => answer.text.clone(),
    };
    let text = text.replace(resource, "RESOURCE");
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.status, headers, body)
}

async fn call_route(
    server: &TestServer,
    token: &str,
    headers: &[(&str, &str)],
    route: &RouteInfo,
    resource: &Resource,
    id: &str,
) -> Response {
    let mut body = body(route);
    if body.get("fence").is_some() {
        body["fence"] = resource.fence.clone();
    }
    // Usage is charged to the job's hold, and these jobs have none.
    body.as_object_mut().map(|body| body.remove("usage"));
    let path = with_parameters(route.path, id);
    if !route.streams {
        return server.call_with(token, headers, &route.method, &path, body).await;
    }
    let mut all = headers.to_vec();
    all.extend([("Tus-Resumable", "1.0.0"), ("Upload-Offset", "0")]);
    let bytes = route.takes_body.then_some("bytes");
    if bytes.is_some() {
        all.push(("Content-Type", "application/offset+octet-stream"));
    }
    server.send_as(token, &all, &route.method, &path, bytes).await
}

async fn channels_of_another_tenant_are_silent(server: TestServer) {
    let (owner, outsiders) = (Owner::of(&server).await, Outsider::all(&server).await);
    let limits = json!([{ "amount": 1_000_000, "window": "lifetime" }]);
    let happens = async |token: &str, payload: &str| {
        let command = json!({
            "charges": [{ "scope": "room", "amount": 1, "limits": limits }],
            "jobs": [{ "queue": "media", "kind": "k", "payload": payload }],
        });
        server.call_as(token, "POST", "/v1/commands", command).await.is(201).json()["jobs"][0]["id"].clone()
    };
    let job = happens(&owner.admin, OWNER_TENANT).await.as_str().unwrap().to_owned();
    let job = Resource { place: "/v1/jobs", id: job, fence: Value::Null };
    for outsider in &outsiders {
        let listen = async |id: &str| {
            let path = format!("/v1/events?channels=job:{id}");
            server.call_with(&outsider.token, outsider.headers, "GET", &path, Value::Null).await
        };
        let (foreign, missing) = (listen(&job.id).await, listen(&job.never()).await);
        assert_eq!(comparable(&foreign, &job.id), comparable(&missing, &job.never()), "{}", outsider.name);
        assert!(matches!(foreign.status, 403 | 404), "{}: {foreign:?}", outsider.name);
    }
    // Both tenants use the same names. A channel has neither past nor live events of the other tenant.
    let mut streams = Vec::new();
    for outsider in &outsiders {
        for channel in ["queue:media", "budget:room", "journal"] {
            let bearer = format!("Bearer {}", outsider.token);
            let mut headers = vec![("Authorization", bearer.as_str()), ("Last-Event-ID", "0")];
            headers.extend(outsider.headers);
            let text = request("GET", &format!("/v1/events?channels={channel}"), &headers, None);
            let (connection, head) = Connection::open(server.address, &text).await;
            match head.status {
                200 => streams.push((format!("{channel} as {}", outsider.name), connection)),
                status => assert_eq!(status, 403, "{channel} as {}", outsider.name),
            }
        }
    }
    assert!(streams.len() > outsiders.len(), "most principals may listen: {}", streams.len());
    happens(&owner.admin, OWNER_TENANT).await;
    happens(&server.key(OTHER_TENANT, "admin").await, "the last").await;
    for (name, mut stream) in streams {
        let mut heard = String::new();
        while !heard.contains("the last") && !heard.contains("spend.posted") {
            heard.push_str(&stream.chunk().await.expect("the stream stays open"));
        }
        assert!(!heard.contains(OWNER_TENANT), "{name}: {heard}");
        let events = heard.lines().filter_map(|line| line.strip_prefix("data: "));
        let tenants = events.filter_map(|data| serde_json::from_str::<Value>(data).unwrap().get("tenant").cloned());
        assert!(tenants.into_iter().all(|tenant| tenant == OTHER_TENANT), "{name}: {heard}");
    }
    server.stop().await;
}
