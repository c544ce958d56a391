//! Every backend behaves alike: the same cases on a local directory and on an S3-compatible service.
//!
//! The service is an in-process one, unless `BURSAR_TEST_S3` names another: `endpoint bucket access-key secret`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod collection;
mod faults;
mod home;
mod journal;
mod moving;
mod proxy;
mod resumable;
mod s3;
mod signed;
mod uploads;

/// Declares cases that run on both backends.
#[macro_export]
macro_rules! on_backends {
    ($($case:ident),* $(,)?) => {
        mod local {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::home::Home::local().await).await;
            })*
        }
        mod s3 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case($crate::home::Home::s3().await).await;
            })*
        }
    };
}
