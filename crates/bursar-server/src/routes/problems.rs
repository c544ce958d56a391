//! `/problems/{type}`: what a problem means. The `type` of every problem is the address of its page.

use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::call::{Input, PathParameter};
use crate::principal::permissions::Action;
use crate::reply::{HandlerReply, ResponseSpec, Uncounted};
use crate::route::Route;
use crate::wire::problem::{Kind, Problem};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::new(Method::GET, "/problems/{type}", Action::Public, "Explain a type of problem", explain)]
}

impl PathParameter for Kind {
    fn read(word: &str) -> Result<Kind, Problem> {
        let known = Kind::ALL.iter().copied().find(|kind| kind.word() == word);
        known.ok_or_else(|| Problem::not_found(format_args!("type of problem {word:?}")))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

async fn explain(input: Input<Kind>) -> Result<Explanation, Problem> {
    Ok(Explanation { kind: input.parameter, html: input.call.accepts_html })
}

/// The page of a problem: HTML for browsers, plain text for everything else.
struct Explanation {
    kind: Kind,
    html: bool,
}

const PAGE: &str = include_str!("../problem_page.html");

impl HandlerReply for Explanation {
    fn respond(self) -> Response {
        let Explanation { kind, html } = self;
        let (word, title, status) = (kind.word(), kind.title(), kind.status());
        let (means, cause, remedy) = (sentence(kind.means()), sentence(kind.cause()), sentence(kind.remedy()));
        let example = serde_json::to_string_pretty(&kind.example()).unwrap_or_default();
        let (media, text) = match html {
            true => {
                let fill = |page: String, name: &str, value: &str| page.replace(name, &escaped(value));
                let status = status.to_string();
                let parts = [
                    ("{{title}}", title),
                    ("{{word}}", word),
                    ("{{status}}", &status),
                    ("{{means}}", &means),
                    ("{{cause}}", &cause),
                    ("{{remedy}}", &remedy),
                ];
                let page = parts.into_iter().fold(PAGE.to_owned(), |page, (name, value)| fill(page, name, value));
                ("text/html; charset=utf-8", page.replace("{{example}}", &plain(&example)))
            }
            false => (
                "text/plain; charset=utf-8",
                format!(
                    "{title}\n\ntype    /problems/{word}\nstatus  {status}\n\nWhat happened: {means}\nTypical cause: {cause}\n\
                     What to do: {remedy}\n\nExample:\n{example}\n"
                ),
            ),
        };
        let headers = [(header::CONTENT_TYPE, media), (header::VARY, "Accept")];
        let mut response = (headers, text).into_response();
        response.extensions_mut().insert(Uncounted);
        response
    }

    fn spec(_: &mut SchemaGenerator) -> ResponseSpec {
        ResponseSpec { status: axum::http::StatusCode::OK, media: "text/plain; charset=utf-8", schema: None }
    }
}

/// Makes a sentence of words without a capital letter and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// Escapes text for HTML, and shows words between backticks as code.
fn escaped(text: &str) -> String {
    let text = plain(text);
    let parts = text.split('`').enumerate();
    parts.map(|(place, part)| if place % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_code_is_marked() {
        assert_eq!(escaped("a <b> & `c`"), "a &lt;b&gt; &amp; <code>c</code>");
        assert_eq!(sentence("`field` says where"), "`field` says where.");
        assert_eq!(sentence("correct it"), "Correct it.");
    }
}
