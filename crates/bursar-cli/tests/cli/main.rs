//! The real binary on a folder of its own: what it prints, and how it ends.

mod backends;
mod backup;
mod bench;
mod commands;
mod config;
mod dev;
mod doctor;
mod faults;
mod holds;
mod input;
mod jobs;
mod journal;
mod meter;
mod operators;
mod place;
mod postgres;
mod schedules;
mod top;
mod upkeep;
