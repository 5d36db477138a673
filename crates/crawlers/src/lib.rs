//! Requests of programs: bots that sign their requests, and visitors that must do some work first.

pub mod bots;
pub mod signature;
