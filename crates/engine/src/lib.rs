pub mod payload;
pub mod verify;
