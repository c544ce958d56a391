//! A transport that answers by a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bursar_client::{Body, Client, Transport, TransportError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};

/// The fate of a request.
pub(crate) enum Step {
    /// The request is answered with status, headers and body.
    Answer(u16, &'static [(&'static str, &'static str)], String),
    /// The connection breaks; `sent` says whether the request may have arrived.
    Breaks { sent: bool },
    /// The request is never answered.
    Silence,
}

/// An answer with a problem.
pub(crate) fn problem(status: u16, kind: &str) -> Step {
    problem_with(status, &[], kind)
}

/// An answer with a problem and headers.
pub(crate) fn problem_with(status: u16, headers: &'static [(&'static str, &'static str)], kind: &str) -> Step {
    let json = format!(r#"{{"type":"/problems/{kind}","title":"t","status":{status},"detail":"about {kind}"}}"#);
    Step::Answer(status, headers, json)
}

/// A scripted transport that records its requests.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

/// The remaining steps, and the requests so far.
type State = (VecDeque<Step>, Vec<Request<Bytes>>);

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Script {
        Script(Arc::new(Mutex::new((steps.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn client(&self) -> Client {
        Client::over(self.clone(), "http://scripted").unwrap().token("a-token")
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request<Bytes>> {
        self.0.lock().unwrap().1.clone()
    }

    /// Returns the value of a header for each request.
    pub(crate) fn headers(&self, name: &str) -> Vec<Option<String>> {
        let text = |request: &Request<Bytes>| Some(request.headers().get(name)?.to_str().unwrap().to_owned());
        self.requests().iter().map(text).collect()
    }
}

impl Transport for Script {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let step = {
            let mut script = self.0.lock().unwrap();
            script.1.push(request);
            // The last step is repeated for all later requests.
            match script.0.len() {
                0 => panic!("the script has no step for this request"),
                1 => match &script.0[0] {
                    Step::Answer(status, headers, body) => Step::Answer(*status, headers, body.clone()),
                    Step::Breaks { sent } => Step::Breaks { sent: *sent },
                    Step::Silence => Step::Silence,
                },
                _ => script.0.pop_front().unwrap(),
            }
        };
        async move {
            match step {
                Step::Answer(status, headers, body) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(*name, *value);
                    }
                    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
                    Ok(response.body(body).unwrap())
                }
                Step::Breaks { sent } => Err(TransportError { sent, source: "broken".into() }),
                Step::Silence => std::future::pending().await,
            }
        }
        .boxed()
    }
}
