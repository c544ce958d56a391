//! API keys and worker tokens. A new token is shown once.

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::{get, post};
use bursar_client::Capabilities;
use bursar_core::refusal::Invalid;
use bursar_core::time::Span;
use bursar_wire::credential::{CredentialAnswer, KeyBody, WorkerBody};
use bursar_wire::role::Role;
use maud::{Markup, html};

use crate::Shared;
use crate::failure::Failure;
use crate::shell::{self, Live, head_of};
use crate::view::{badge, form, list, time};
use crate::visit::{Act, Flash, Visit};

/// Tokens of a class that are shown.
const SHOWN: usize = 200;
/// How long a new token is valid, unless the form says otherwise.
const EXPIRY: &str = "90d";

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route("/tokens", get(show))
        .route("/tokens/key", post(make_key))
        .route("/tokens/worker", post(make_worker))
        .route("/tokens/{class}/{id}/revoke", post(revoke))
}

async fn show(visit: Visit) -> Result<Response, Failure> {
    let keys = visit.client.keys().list(None, SHOWN).await?.into_inner().items;
    let workers = visit.client.workers().list(None, SHOWN).await?.into_inner().items;
    let roles = visit.api.roles();
    let body = html! {
        (head_of(&visit, &[], &html! { "Tokens" }, &html! {}, &html! {}))
        div.cols {
            section.card {
                div.card-head {
                    h2 { "API keys" }
                    div.acts { (form::in_menu(&visit, "/tokens/key", "New key", "is-small", &html! {
                        (form::field("name", "Name", "", "shop"))
                        (role_choice(&roles))
                        (expiry("key"))
                    })) }
                }
                (table(&visit, "key", &keys))
            }
            section.card {
                div.card-head {
                    h2 { "Workers" }
                    div.acts { (form::in_menu(&visit, "/tokens/worker", "New worker", "is-small", &html! {
                        (form::field("name", "Name", "", "encoder"))
                        (form::field("queues", "Queues", "*", "media-*, mail"))
                        (form::field("kinds", "Kinds", "*", "video.*"))
                        (expiry("worker"))
                    })) }
                }
                (table(&visit, "worker", &workers))
            }
        }
    };
    Ok(shell::page(&visit, "Tokens", &Live::Still, &body))
}

/// Shows the roles that a key can have, each with what the table of permissions allows it.
fn role_choice(roles: &[(Role, Vec<&'static str>)]) -> Markup {
    html! {
        fieldset.field.roles {
            legend { "Role" }
            @for (role, actions) in roles.iter().filter(|(role, _)| role.is_of_keys()) {
                label.role {
                    input type="radio" name="role" value=(role.name()) checked[*role == Role::User];
                    span { strong { (role.name()) } " " span.hint { (may(actions)) } }
                }
            }
        }
    }
}

/// Says in one line what actions allow: `submit commands; read budgets, jobs`.
fn may(actions: &[&str]) -> String {
    // What a role changes comes before what it reads.
    let verbs = [
        ("write", "change"),
        ("submit", "submit"),
        ("enqueue", "enqueue"),
        ("cancel", "cancel"),
        ("operate", "retry and edit"),
        ("work", "work on"),
        ("read", "read"),
    ];
    let nouns = |verb: &str| {
        let of_verb = actions.iter().filter_map(|action| action.split_once('.')).filter(|(_, own)| *own == verb);
        of_verb.map(|(noun, _)| noun).collect::<Vec<_>>().join(", ")
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for (verb, word) in verbs {
        match (nouns(verb), parts.last_mut()) {
            (nouns, _) if nouns.is_empty() => {}
            (nouns, Some((words, last))) if *last == nouns => words.push_str(&format!(", {word}")),
            (nouns, _) => parts.push((word.to_owned(), nouns)),
        }
    }
    parts.into_iter().map(|(words, nouns)| format!("{words} {nouns}")).collect::<Vec<_>>().join("; ")
}

/// Shows the field for how long a token is valid.
fn expiry(class: &str) -> Markup {
    html! {
        div.field {
            label for={ "expires-" (class) } { "Expires after" }
            input id={ "expires-" (class) } name="expires" value=(EXPIRY) placeholder="90d, 12h" autocomplete="off" spellcheck="false";
        }
    }
}

/// Reads how long a token is to be valid.
fn expires_in_ms(act: &Act) -> Result<Option<i64>, Failure> {
    let span = act.field("expires").map(str::parse::<Span>).transpose();
    Ok(span.map_err(|problem| Invalid::new("expiry", problem.problem))?.map(Span::millis))
}

fn table(visit: &Visit, class: &str, tokens: &[CredentialAnswer]) -> Markup {
    html! {
        @if tokens.is_empty() {
            (list::empty("None yet", "Programs call the server with a token of their own.", None))
        } @else {
            div.table-wrap {
                table.table.stacks {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { @if class == "key" { "Role" } @else { "Queues" } } th.num scope="col" { "Expires" } th scope="col" { span.sr-only { "Acts" } } } }
                    tbody {
                        @for token in tokens {
                            tr {
                                th.lead-half scope="row" title=(token.id) { (token.name) }
                                td.at-end { (badge::of_word(&token.state)) }
                                td { (allowed(token)) }
                                td.num data-label="expires" { (time::relative(token.expires_at.as_deref(), visit.now)) }
                                td { div.acts {
                                    @if token.state == "good" {
                                        (form::in_menu(visit, &format!("/tokens/{class}/{}/revoke", token.id), "Revoke", "is-small is-danger", &html! { p.hint { "It is refused from its next request on." } }))
                                    }
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn allowed(token: &CredentialAnswer) -> Markup {
    match (&token.role, &token.capabilities) {
        (Some(role), _) => html! { span.tag.is-role { (role.name()) } },
        (None, Some(capabilities)) => html! { @for queue in &capabilities.queues { span.tag { (queue) } " " } },
        _ => html! {},
    }
}

async fn make_key(act: Act) -> Result<Response, Failure> {
    let role = act.field("role").and_then(|name| Role::of_keys().find(|role| role.name() == name));
    let Some(role) = role else { return Ok(act.visit.go("/tokens", &Flash::Failed("Choose a role.".to_owned()))) };
    let name = act.field("name").unwrap_or_default().to_owned();
    let expires_in_ms = match expires_in_ms(&act) {
        Ok(expires) => expires,
        Err(failure) => return act.visit.failed("/tokens", failure),
    };
    let made = act.visit.client.make_key(&KeyBody { name: name.clone(), role, expires_in_ms }).await;
    made_page(&act, &name, made.map(|made| made.into_inner().token))
}

async fn make_worker(act: Act) -> Result<Response, Failure> {
    let name = act.field("name").unwrap_or_default().to_owned();
    let (queues, kinds) = (patterns(&act, "queues")?, patterns(&act, "kinds")?);
    let capabilities = Capabilities { queues, kinds, ..Capabilities::default() };
    let expires_in_ms = match expires_in_ms(&act) {
        Ok(expires) => expires,
        Err(failure) => return act.visit.failed("/tokens", failure),
    };
    let body = WorkerBody { name: name.clone(), capabilities, expires_in_ms };
    let made = act.visit.client.make_worker(&body).await;
    made_page(&act, &name, made.map(|made| made.into_inner().token))
}

fn patterns(act: &Act, name: &str) -> Result<Vec<bursar_client::Pattern>, Failure> {
    let words = act.field(name).unwrap_or_default().split([',', ' ']).filter(|word| !word.is_empty());
    Ok(words.map(bursar_client::Pattern::new).collect::<Result<_, _>>()?)
}

fn made_page(act: &Act, name: &str, made: Result<Option<String>, bursar_client::Error>) -> Result<Response, Failure> {
    match made {
        Ok(Some(token)) => Ok(act.visit.go("/tokens", &Flash::Secret { name: name.to_owned(), token })),
        Ok(None) => {
            Ok(act.visit.go("/tokens", &Flash::Failed("The token was made before and is not shown again.".to_owned())))
        }
        Err(error) => act.visit.failed("/tokens", error.into()),
    }
}

async fn revoke(Path((class, id)): Path<(String, String)>, act: Act) -> Result<Response, Failure> {
    let tokens = if class == "worker" { act.visit.client.workers() } else { act.visit.client.keys() };
    tokens.revoke(&id).await?;
    Ok(act.visit.done("/tokens", "The token is revoked: it is refused from its next request on."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_said_in_one_line() {
        let actions = [
            "public",
            "whoami",
            "budgets.read",
            "commands.submit",
            "jobs.enqueue",
            "jobs.cancel",
            "jobs.read",
            "events.listen",
        ];
        assert_eq!(may(&actions), "submit commands; enqueue, cancel jobs; read budgets, jobs");
    }
}
