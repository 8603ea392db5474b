//! A client and its connection, polled by one task.
//!
//! A connection as a task of its own costs two wakeups a call, and where several sessions are ready at once all of them
//! receive before the first sends again, so that the server idles meanwhile.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};

use super::tls;

type Stream = <tls::Maker as MakeTlsConnect<Socket>>::Stream;

pub struct Link {
    pub client: Client,
    /// None when it has ended: the client's calls fail from then on.
    connection: Option<Box<Connection<Socket, Stream>>>,
}

impl Link {
    pub fn new(client: Client, connection: Connection<Socket, Stream>) -> Link {
        Link { client, connection: Some(Box::new(connection)) }
    }

    pub fn is_closed(&self) -> bool {
        self.connection.is_none() || self.client.is_closed()
    }

    /// Carries the connection on while something is asked of the client.
    pub async fn with<T>(&mut self, asked: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let Link { client, connection } = self;
        let mut asking = pin!(asked(client));
        let mut is_sent = false;
        poll_fn(|cx| {
            if is_sent {
                carry_on(connection, cx);
            }
            let answer = asking.as_mut().poll(cx);
            if answer.is_pending() && !is_sent {
                is_sent = true;
                carry_on(connection, cx);
            }
            answer
        })
        .await
    }

    /// Carries the connection on while nothing is asked, until it ends.
    pub async fn idle(&mut self) {
        poll_fn(|cx| {
            carry_on(&mut self.connection, cx);
            if self.connection.is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The client sees the end of a connection when it is dropped.
fn carry_on(connection: &mut Option<Box<Connection<Socket, Stream>>>, cx: &mut Context<'_>) {
    if let Some(open) = connection
        && Pin::new(open.as_mut()).poll(cx).is_ready()
    {
        *connection = None;
    }
}
