//! Runs the binary in a temporary folder and checks its output and exit code.

mod archive;
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
mod maintenance;
mod meter;
mod moving;
mod operators;
mod people;
mod postgres;
mod row_security;
mod schedules;
mod top;
mod workdir;
