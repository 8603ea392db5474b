pub mod address;
pub mod pattern;
pub mod rng;
