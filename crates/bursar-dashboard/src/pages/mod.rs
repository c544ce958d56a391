//! The pages, one file each, with the acts that they offer.

mod blob;
mod blobs;
mod budget;
mod budgets;
mod dead;
mod events;
mod grants;
mod job;
mod job_rows;
mod jobs;
mod journal;
mod login;
mod overview;
mod queues;
mod schedules;
mod search;
mod settings;
mod spenders;
mod tenants;
mod tokens;
mod workers;

use axum::Router;

use crate::Shared;

pub(crate) fn router() -> Router<Shared> {
    let pages = [
        login::routes(),
        overview::routes(),
        budgets::routes(),
        budget::routes(),
        jobs::routes(),
        job::routes(),
        queues::routes(),
        blobs::routes(),
        blob::routes(),
        workers::routes(),
        schedules::routes(),
        dead::routes(),
        grants::routes(),
        journal::routes(),
        tokens::routes(),
        settings::routes(),
        tenants::routes(),
        search::routes(),
        events::routes(),
    ];
    pages.into_iter().fold(Router::new(), Router::merge)
}
