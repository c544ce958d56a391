//! The rules of the kernel as stories: what is there, what is asked, what is answered.

mod admit;
mod budget;
mod grant;
mod hold;
mod idempotency;
mod rebuild;
mod render;
mod story;
mod submit;
mod windows;
