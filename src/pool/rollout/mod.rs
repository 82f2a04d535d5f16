//! The rollout: who gets a slot and a desired config, and who gives a slot back.

mod cordon;

pub use cordon::may_cordon;
