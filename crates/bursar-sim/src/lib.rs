//! Simulation, crash and power-loss tests of Bursar's guarantees. Not shipped.

pub mod crash;
pub mod sim;
