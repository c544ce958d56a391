//! Tenants are apart on every route: what is another's is answered as if it had never been. Made from the list of routes.

use bursar_server::{Action, Declared, Role, declared};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::client::{Answer, Connection, request};
use crate::home::{Home, OPERATOR, on_both};
use crate::matrix::{SIGNED, body, user};

on_both!(what_is_anothers_is_answered_as_if_it_had_never_been, channels_of_another_are_silent);

const OURS: &str = "acme";
const THEIRS: &str = "globex";
/// Longer than any of these tests takes.
const LONG_MS: u64 = 3_600_000;

async fn what_is_anothers_is_answered_as_if_it_had_never_been(home: Home) {
    let (owner, others) = (Owner::of(&home).await, Other::all(&home).await);
    let routes: Vec<_> = declared().into_iter().filter(|route| route.path.contains('{')).collect();
    assert!(routes.len() > 35, "all routes are looked at");
    for (number, route) in routes.iter().enumerate() {
        let name = format!("{} {}", route.method, route.path);
        // Each has a thing of its own before it: under a name that both tenants can use, one would find what another made.
        let make = (0..others.len()).map(|other| owner.make(&home, route, number * 100 + other));
        let things = join_all(make).await;
        let (before, journal) = (owner.states(&home, &things).await, owner.journal(&home).await);
        join_all(others.iter().zip(&things).map(|(other, thing)| other.sees_nothing(&home, route, thing))).await;
        for ((before, after), other) in before.iter().zip(owner.states(&home, &things).await).zip(&others) {
            assert_eq!(*before, after, "{name} as {}", other.name);
        }
        assert_eq!(journal, owner.journal(&home).await, "{name}: nothing has happened to {OURS}");
        // It was there, and the request was one that it can be asked.
        // A lease is its worker's alone.
        let who = if route.action == Action::JobsWork { &owner.worker } else { &owner.admin };
        let own = thing_asked(&home, who, &[], route, &things[0], &things[0].id).await;
        assert!(own.status < 300, "{name} as its owner: {own:?}");
    }
    home.stop().await;
}

/// A thing of the owner's, by what it is asked for.
struct Thing {
    /// Where it is found, and its lists.
    place: &'static str,
    id: String,
    /// The fence of its lease, where it is a job that somebody works on.
    fence: Value,
}

impl Thing {
    /// What looks the same and never was.
    fn never(&self) -> String {
        let never = match self.id.strip_prefix("thing-") {
            Some(number) => format!("never-{number}"),
            None => format!("{}zzzz", &self.id[..self.id.len() - 4]),
        };
        assert_ne!(never, self.id);
        never
    }
}

async fn does(home: &Home, token: &str, method: &str, path: &str, body: Value) -> Answer {
    let done = home.ask_as(token, method, path, body).await;
    assert!(done.status < 300, "{method} {path}: {done:?}");
    done
}

/// Who has things.
struct Owner {
    admin: String,
    worker: String,
}

impl Owner {
    async fn of(home: &Home) -> Owner {
        let works = json!({ "queues": ["*"], "kinds": ["*"] });
        Owner { admin: home.key(OURS, "admin").await, worker: home.worker(OURS, works).await }
    }

    /// Makes what a route is about, in a state in which it can be asked for that. A route that is about something new is not
    /// passed over: this must be told how the thing is made.
    async fn make(&self, home: &Home, route: &Declared, number: usize) -> Thing {
        let (place, name) = (route.path.split("/{").next().unwrap(), format!("thing-{number:06}"));
        let admin = async |method: &str, path: &str, body: Value| does(home, &self.admin, method, path, body).await;
        let id = |made: Answer| made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
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
                id(admin("POST", place, body).await)
            }
            "/v1/jobs" => {
                let job = id(admin("POST", place, json!({ "queue": name, "kind": "k", "payload": 1 })).await);
                fence = self.bring_to(home, &job, &name, act).await;
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
            "/v1/workers" => id(admin("POST", place, json!({ "name": name })).await),
            "/v1/keys" => id(admin("POST", place, json!({ "name": name, "role": "user" })).await),
            _ => panic!("{} {}: how is what it is about made? say it here", route.method, route.path),
        };
        Thing { place, id, fence }
    }

    /// Brings a job where an act makes sense; the fence of its lease, if it has one.
    async fn bring_to(&self, home: &Home, job: &str, queue: &str, act: &str) -> Value {
        let works = matches!(act, "heartbeat" | "progress" | "complete" | "fail" | "snooze" | "return" | "attempts");
        if !works && !matches!(act, "retry" | "discard") {
            return Value::Null;
        }
        // By a worker's token: this node remembers what workers have leased.
        let lease = json!({ "queues": [queue], "lease_ms": LONG_MS });
        let leased = does(home, &self.worker, "POST", "/v1/jobs/lease", lease).await.json();
        assert_eq!(leased["jobs"][0]["id"], job);
        let fence = leased["jobs"][0]["lease"]["fence"].clone();
        if !works {
            let dies = json!({ "fence": fence, "error": { "kind": "bad" }, "retryable": false });
            does(home, &self.worker, "POST", &format!("/v1/jobs/{job}/fail"), dies).await;
        }
        fence
    }

    /// The things as they stand.
    async fn states(&self, home: &Home, things: &[Thing]) -> Vec<Value> {
        let state = async |thing: &Thing| {
            // A grant is shown in the list alone.
            let listed = thing.place == "/v1/grants";
            let path =
                if listed { thing.place.to_owned() + "?limit=1000" } else { format!("{}/{}", thing.place, thing.id) };
            let found = does(home, &self.admin, "GET", &path, Value::Null).await.json();
            if !listed {
                return found;
            }
            let found = found["items"].as_array().unwrap().iter().find(|item| item["id"] == thing.id.as_str());
            found.unwrap().clone()
        };
        join_all(things.iter().map(state)).await
    }

    /// Every event there is: how many, and the last one.
    async fn journal(&self, home: &Home) -> (usize, Value) {
        let (mut count, mut last, mut after) = (0, Value::Null, "0".to_owned());
        loop {
            let path = format!("/v1/journal?limit=1000&after={after}");
            let page = does(home, &self.admin, "GET", &path, Value::Null).await.json();
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

/// Somebody of another tenant.
struct Other {
    name: String,
    token: String,
    headers: &'static [(&'static str, &'static str)],
}

impl Other {
    /// Every kind of principal there is.
    async fn all(home: &Home) -> Vec<Other> {
        let other = |name: &str, token: String| Other { name: name.to_owned(), token, headers: &[] };
        let everything = json!({ "queues": ["*"], "kinds": ["*"], "mutations": ["*"] });
        let mut all = vec![
            Other { headers: &[("Bursar-Tenant", THEIRS)], ..other("operator", OPERATOR.to_owned()) },
            other("a worker that may do everything", home.worker(THEIRS, everything).await),
            other("a worker that may do nothing", home.worker(THEIRS, json!({})).await),
        ];
        let known = [Role::Operator, Role::Worker];
        for role in Role::ALL.into_iter().filter(|role| !known.contains(role)) {
            all.push(other(&format!("{} by key", role.name()), home.key(THEIRS, role.name()).await));
        }
        all.extend(SIGNED.map(|role| other(&format!("{} by token", role.name()), user(THEIRS, role))));
        all
    }

    /// The answer for a thing of somebody else is the one for what never was.
    async fn sees_nothing(&self, home: &Home, route: &Declared, thing: &Thing) {
        let never = thing.never();
        let anothers = thing_asked(home, &self.token, self.headers, route, thing, &thing.id).await;
        let nothing = thing_asked(home, &self.token, self.headers, route, thing, &never).await;
        let name = format!("{} {} as {}", route.method, route.path, self.name);
        assert!(!anothers.text.contains(OURS), "{name}: no word of the other: {anothers:?}");
        assert_eq!(told(&anothers, &thing.id), told(&nothing, &never), "{name}");
        let by_id = route.path.contains("{id}");
        assert!(!by_id || matches!(anothers.status, 403 | 404), "{name}: {anothers:?}");
    }
}

/// What an answer says but for the thing, the request and the time.
fn told(answer: &Answer, thing: &str) -> (u16, Vec<(String, String)>, Value) {
    let own = ["x-request-id", "traceparent", "date"];
    let mut headers = answer.headers.clone();
    headers.retain(|(name, _)| !own.contains(&name.to_lowercase().as_str()));
    let text = answer.text.replace(thing, "THING");
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.status, headers, body)
}

async fn thing_asked(
    home: &Home,
    token: &str,
    headers: &[(&str, &str)],
    route: &Declared,
    thing: &Thing,
    id: &str,
) -> Answer {
    let (before, rest) = route.path.split_once('{').unwrap();
    let after = rest.split_once('}').unwrap().1;
    assert!(!after.contains('{'), "{}: a path has one part that changes", route.path);
    let mut body = body(route);
    if body.get("fence").is_some() {
        body["fence"] = thing.fence.clone();
    }
    // What a job cost is charged to what it held, and these hold nothing.
    body.as_object_mut().map(|body| body.remove("usage"));
    home.ask_with(token, headers, &route.method, &format!("{before}{id}{after}"), body).await
}

async fn channels_of_another_are_silent(home: Home) {
    let (owner, others) = (Owner::of(&home).await, Other::all(&home).await);
    let limits = json!([{ "amount": 1_000_000, "window": "lifetime" }]);
    let happens = async |token: &str, payload: &str| {
        let command = json!({
            "charges": [{ "scope": "room", "amount": 1, "limits": limits }],
            "jobs": [{ "queue": "media", "kind": "k", "payload": payload }],
        });
        home.ask_as(token, "POST", "/v1/commands", command).await.is(201).json()["jobs"][0]["id"].clone()
    };
    let job = happens(&owner.admin, OURS).await.as_str().unwrap().to_owned();
    let job = Thing { place: "/v1/jobs", id: job, fence: Value::Null };
    for other in &others {
        let listen = async |id: &str| {
            let path = format!("/v1/events?channels=job:{id}");
            home.ask_with(&other.token, other.headers, "GET", &path, Value::Null).await
        };
        let (anothers, nothing) = (listen(&job.id).await, listen(&job.never()).await);
        assert_eq!(told(&anothers, &job.id), told(&nothing, &job.never()), "{}", other.name);
        assert!(matches!(anothers.status, 403 | 404), "{}: {anothers:?}", other.name);
    }
    // Names are their own: a channel of theirs has nothing of the other's, neither of what was nor of what is.
    let mut streams = Vec::new();
    for other in &others {
        for channel in ["queue:media", "budget:room", "journal"] {
            let bearer = format!("Bearer {}", other.token);
            let mut headers = vec![("Authorization", bearer.as_str()), ("Last-Event-ID", "0")];
            headers.extend(other.headers);
            let text = request("GET", &format!("/v1/events?channels={channel}"), &headers, None);
            let (connection, head) = Connection::open(home.address, &text).await;
            match head.status {
                200 => streams.push((format!("{channel} as {}", other.name), connection)),
                status => assert_eq!(status, 403, "{channel} as {}", other.name),
            }
        }
    }
    assert!(streams.len() > others.len(), "most may listen: {}", streams.len());
    happens(&owner.admin, OURS).await;
    happens(&home.key(THEIRS, "admin").await, "the last").await;
    for (name, mut stream) in streams {
        let mut heard = String::new();
        while !heard.contains("the last") && !heard.contains("spend.posted") {
            heard.push_str(&stream.chunk().await.expect("the stream goes on"));
        }
        assert!(!heard.contains(OURS), "{name}: {heard}");
        let events = heard.lines().filter_map(|line| line.strip_prefix("data: "));
        let tenants = events.filter_map(|data| serde_json::from_str::<Value>(data).unwrap().get("tenant").cloned());
        assert!(tenants.into_iter().all(|tenant| tenant == THEIRS), "{name}: {heard}");
    }
    home.stop().await;
}
