//! The rollout: who gets a slot and a desired config, and who gives a slot back.

mod cordon;
pub mod decide;
pub mod recovery;
pub mod steps;

pub use cordon::may_cordon;
