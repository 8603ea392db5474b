//! Duty: the door to databases: what a driver for one must offer. PostgreSQL's stands in `postgres`.
//! Refusal: nothing here knows a protocol.

use std::future::Future;

use crate::values::Value;

/// How a call ended well. Times are those of `clock::now_ns`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// When the first of the reply was here.
    pub first_byte_ns: u64,
    pub rows: u64,
    /// Of the rows as they came over the wire.
    pub bytes: u64,
}

/// How a call, or an attempt to connect, failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Five characters by the SQL standard: 08006 where the connection was lost, 08001 where none could be made.
    pub sqlstate: String,
    pub text: String,
}

impl Failure {
    pub const LOST: &str = "08006";
    pub const UNREACHABLE: &str = "08001";
}

/// A database, or several that share the calls: bricks, counted from 0.
pub trait Database: Send + Sync + 'static {
    type Session: Session;

    /// A session with everything prepared.
    fn connect(&self, brick: usize) -> impl Future<Output = Result<Self::Session, Failure>> + Send;
}

/// One connection. It carries one call at a time.
pub trait Session: Send + 'static {
    /// Sends a call of the mapping and waits for the last byte of its result.
    fn call(&mut self, call: usize, values: &[Value]) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Looks after the connection while there is nothing to send; ends when it is gone. It may be dropped at any time.
    fn idle(&mut self) -> impl Future<Output = ()> + Send;

    /// Whether the connection is gone for good.
    fn is_lost(&self) -> bool;
}
