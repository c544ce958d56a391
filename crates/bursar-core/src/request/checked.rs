//! A request that has been checked, and the rows it needs.

use std::ops::Deref;

use crate::needs::Needs;
use crate::refusal::Invalid;
use crate::request::{Op, Request};

/// A request that passed [`Request::check`], with the keys of the rows it needs.
///
/// It is made once, where a request enters the engine. Everything behind that point relies on it: no layer below checks a
/// request again or works out its needs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRequest {
    request: Request,
    needs: Needs,
}

impl CheckedRequest {
    /// Checks a request and works out which rows it needs.
    pub fn new(request: Request) -> Result<CheckedRequest, Invalid> {
        request.check()?;
        let needs = Needs::of(&request);
        Ok(CheckedRequest { request, needs })
    }

    /// The keys of the rows it needs, as far as they are known before anything is loaded.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The same request for fewer items. `op` must be the operation of this request with some of its items left out.
    pub fn narrowed(&self, op: Op) -> CheckedRequest {
        debug_assert_eq!(std::mem::discriminant(&op), std::mem::discriminant(&self.op), "the operation stays the same");
        let request = Request { op, ..self.request.clone() };
        let needs = Needs::of(&request);
        CheckedRequest { request, needs }
    }
}

impl Deref for CheckedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl TryFrom<Request> for CheckedRequest {
    type Error = Invalid;

    fn try_from(request: Request) -> Result<CheckedRequest, Invalid> {
        CheckedRequest::new(request)
    }
}
