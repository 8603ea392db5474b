//! Duty: sessions with PostgreSQL: connect, prepare, bind in binary form, read results to their last byte.
//! Refusal: no pipelining, one call a session at a time; a password leaves this module towards the server alone.

mod dsn;
mod link;
mod tls;

use std::error::Error as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde::Serialize;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use crate::clock::now_ns;
use crate::database::{Answer, Database, Failure, Session};
use crate::mapping;
use crate::values::{Kind, Value};

pub use dsn::{Dsn, hide_in_own_arguments, passwords_in};

pub struct Postgres {
    dsns: Vec<Dsn>,
    tls: Vec<tls::Maker>,
    statements: Arc<Vec<mapping::Statement>>,
}

pub struct PostgresSession {
    link: link::Link,
    statements: Vec<Statement>,
}

impl Postgres {
    pub fn new(dsns: Vec<Dsn>, statements: Vec<mapping::Statement>) -> Result<Postgres, String> {
        let tls = dsns.iter().map(tls::Maker::new).collect::<Result<Vec<_>, String>>()?;
        Ok(Postgres { dsns, tls, statements: Arc::new(statements) })
    }

    pub fn shown(&self, brick: usize) -> &str {
        &self.dsns[brick].shown
    }

    async fn link(&self, brick: usize) -> Result<link::Link, Failure> {
        let connecting = self.dsns[brick].config.connect(self.tls[brick].clone());
        let (client, connection) = connecting.await.map_err(|e| failure(&e, Failure::UNREACHABLE))?;
        Ok(link::Link::new(client, connection))
    }

    /// What the server says of itself; what this account may not know is left out.
    pub async fn facts(&self, brick: usize) -> Result<ServerFacts, Failure> {
        let mut link = self.link(brick).await?;
        let mut facts = ServerFacts { dsn: self.dsns[brick].shown.clone(), ..ServerFacts::default() };
        let mut one = async |sql: &str| -> Option<String> {
            let rows = link.with(async |client: &Client| client.simple_query(sql).await).await.ok()?;
            rows.iter().find_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_string),
                _ => None,
            })
        };
        facts.version = one("show server_version").await.unwrap_or_default();
        facts.data_directory = one("show data_directory").await;
        facts.server_address = one("select host(inet_server_addr())").await;
        facts.database_bytes = one("select pg_database_size(current_database())").await.and_then(|t| t.parse().ok());
        for name in SETTINGS {
            if let Some(value) = one(&format!("show {name}")).await {
                facts.settings.push((name.to_string(), value));
            }
        }
        facts.is_encrypted = self.dsns[brick].is_encrypted_by_demand();
        Ok(facts)
    }
}

/// What decides how fast a server answers, and what its acknowledgements are worth.
const SETTINGS: [&str; 8] = [
    "shared_buffers",
    "effective_cache_size",
    "work_mem",
    "max_connections",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "jit",
];

#[derive(Debug, Clone, Default, Serialize)]
pub struct ServerFacts {
    pub dsn: String,
    pub version: String,
    pub data_directory: Option<String>,
    /// None over a Unix socket.
    pub server_address: Option<String>,
    pub database_bytes: Option<u64>,
    pub settings: Vec<(String, String)>,
    /// Whether the DSN insists on TLS.
    pub is_encrypted: bool,
}

impl Database for Postgres {
    type Session = PostgresSession;

    async fn connect(&self, brick: usize) -> Result<PostgresSession, Failure> {
        let mut link = self.link(brick).await?;
        let mut statements = Vec::with_capacity(self.statements.len());
        for statement in self.statements.iter() {
            let types: Vec<Type> = statement.kinds.iter().map(|kind| type_of(*kind)).collect();
            let prepared = link.with(async |client: &Client| client.prepare_typed(&statement.sql, &types).await).await;
            statements.push(prepared.map_err(|e| {
                let Failure { sqlstate, text } = failure(&e, Failure::LOST);
                Failure { sqlstate, text: format!("page {}: {text}", statement.page) }
            })?);
        }
        Ok(PostgresSession { link, statements })
    }
}

impl Session for PostgresSession {
    async fn call(&mut self, call: usize, values: &[Value]) -> Result<Answer, Failure> {
        let statement = &self.statements[call];
        let answered = self.link.with(async |client: &Client| {
            let rows = client.query_raw(statement, values).await?;
            // The server has answered: what it said first is here.
            let mut answer = Answer { first_byte_ns: now_ns(), ..Answer::default() };
            let mut rows = pin!(rows);
            while let Some(row) = rows.next().await {
                answer.rows += 1;
                answer.bytes += row?.raw_size_bytes() as u64;
            }
            Ok(answer)
        });
        answered.await.map_err(|e| failure(&e, Failure::LOST))
    }

    async fn idle(&mut self) {
        self.link.idle().await;
    }

    fn is_lost(&self) -> bool {
        self.link.is_closed()
    }
}

fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Int2 => Type::INT2,
        Kind::Int4 => Type::INT4,
        Kind::Int8 => Type::INT8,
        Kind::Float4 => Type::FLOAT4,
        Kind::Float8 => Type::FLOAT8,
        Kind::Text => Type::TEXT,
        Kind::Bool => Type::BOOL,
    }
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, ty) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(v), &Type::INT2) => i16::try_from(*v)?.to_sql(ty, out),
            (Value::Int(v), &Type::INT4) => i32::try_from(*v)?.to_sql(ty, out),
            (Value::Int(v), _) => v.to_sql(ty, out),
            (Value::Float(v), &Type::FLOAT4) => (*v as f32).to_sql(ty, out),
            (Value::Float(v), _) => v.to_sql(ty, out),
            (Value::Bool(v), _) => v.to_sql(ty, out),
            (Value::Text(v), _) => (&**v).to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        // Statements are prepared with the types of the mapping, which made the values.
        true
    }

    to_sql_checked!();
}

/// One line, without anything of the DSN.
fn failure(error: &tokio_postgres::Error, without_state: &str) -> Failure {
    if let Some(said) = error.as_db_error() {
        let text = said.message().split_whitespace().collect::<Vec<_>>().join(" ");
        return Failure { sqlstate: said.code().code().to_string(), text };
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let more = deeper.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = deeper.source();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure { sqlstate: without_state.to_string(), text }
}

/// How long connecting may take before a server counts as not reachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
