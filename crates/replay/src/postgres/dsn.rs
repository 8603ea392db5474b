//! Connection strings as libpq takes them, and what may be shown of them.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::CONNECT_TIMEOUT;

/// Data that a dead peer does not acknowledge ends the connection after this long, as nothing else would.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Dsn {
    pub config: Config,
    /// Without the password.
    pub shown: String,
    /// `verify-ca` and `verify-full`: certificates are checked against this file.
    pub roots: Option<String>,
    pub checks_certificate: bool,
    pub checks_name: bool,
}

impl Dsn {
    /// Reads a URI or keywords; a password that is missing comes from PGPASSWORD or the password file.
    pub fn parse(text: &str) -> Result<Dsn, String> {
        let (plain, ssl_mode, roots) = without_verification(text);
        let mut config = Config::from_str(&plain).map_err(|e| reason(&e))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            let host = std::env::var("PGHOST").unwrap_or_else(|_| "localhost".into());
            if host.starts_with('/') {
                config.host_path(host)
            } else {
                config.host(host)
            };
        }
        if config.get_user().is_none() {
            config
                .user(std::env::var("PGUSER").or_else(|_| std::env::var("USER")).unwrap_or_else(|_| "postgres".into()));
        }
        if config.get_dbname().is_none()
            && let Ok(name) = std::env::var("PGDATABASE")
        {
            config.dbname(name);
        }
        let shown = shown(&config);
        if config.get_password().is_none()
            && let Some(password) = known_password(&config)
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("brickyard");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(TCP_USER_TIMEOUT);
        }
        let checks_certificate = matches!(ssl_mode.as_deref(), Some("verify-ca" | "verify-full"));
        if checks_certificate {
            config.ssl_mode(SslMode::Require);
        }
        let checks_name = ssl_mode.as_deref() == Some("verify-full");
        Ok(Dsn { config, shown, roots, checks_certificate, checks_name })
    }

    pub fn is_encrypted_by_demand(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }
}

/// The part of a DSN that tokio-postgres does not know: `sslmode=verify-…` and `sslrootcert`.
fn without_verification(text: &str) -> (String, Option<String>, Option<String>) {
    let (mut mode, mut roots) = (None, None);
    let mut keep = |pair: &str| match pair.split_once('=') {
        Some(("sslmode", value)) if value.starts_with("verify-") => {
            mode = Some(value.to_string());
            false
        }
        Some(("sslrootcert", value)) => {
            roots = Some(value.trim_matches('\'').replace("%2F", "/").replace("%2f", "/"));
            false
        }
        _ => true,
    };
    let plain = if text.contains("://") {
        match text.split_once('?') {
            Some((head, query)) => {
                let kept: Vec<&str> = query.split('&').filter(|pair| keep(pair)).collect();
                if kept.is_empty() { head.to_string() } else { format!("{head}?{}", kept.join("&")) }
            }
            None => text.to_string(),
        }
    } else if text.contains("sslrootcert=") || text.contains("sslmode=verify-") {
        text.split_whitespace().filter(|pair| keep(pair)).collect::<Vec<_>>().join(" ")
    } else {
        text.to_string()
    };
    (plain, mode, roots)
}

/// Why a DSN is none. The parser may quote a piece of it, which can be a piece of a password: only plain names pass.
fn reason(error: &tokio_postgres::Error) -> String {
    let said = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let quoted = said.split('`').nth(1).unwrap_or("");
    let known = ["sslmode", "port", "host", "hostaddr", "connect_timeout", "user", "dbname", "password", "options"];
    let about = known.iter().find(|k| **k == quoted).map_or(String::new(), |k| format!(" ({k})"));
    format!("it is no connection string{about}; write postgresql://USER@HOST:PORT/DATABASE")
}

fn shown(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.to_string_lossy().into_owned(),
        None => config.get_hostaddrs().first().map_or_else(|| "localhost".into(), ToString::to_string),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let user = config.get_user().unwrap_or("");
    let database = config.get_dbname().unwrap_or(user);
    if host.starts_with('/') {
        format!("postgresql://{user}@/{database}?host={host}&port={port}")
    } else {
        format!("postgresql://{user}@{host}:{port}/{database}")
    }
}

/// PGPASSWORD, else the first line of the password file that fits: host:port:database:user:password.
fn known_password(config: &Config) -> Option<String> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Some(password);
    }
    let home = || std::env::var("HOME").map(|home| format!("{home}/.pgpass"));
    let text = std::fs::read_to_string(std::env::var("PGPASSFILE").or_else(|_| home()).ok()?).ok()?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "localhost".into(),
    };
    let user = config.get_user().unwrap_or("");
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let wanted = [&host, &port, config.get_dbname().unwrap_or(user), user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = unescaped(line);
        let (password, keys) = fields.split_last()?;
        let fits = keys.len() == 4 && keys.iter().zip(wanted).all(|(k, w)| k == "*" || k == w);
        fits.then(|| password.clone())
    })
}

/// Fields between colons; a backslash takes the next character as it is.
fn unescaped(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' => fields.push(String::new()),
            '\\' => fields.last_mut().expect("never empty").extend(characters.next()),
            c => fields.last_mut().expect("never empty").push(c),
        }
    }
    fields
}

/// What stands where passwords do, as it is written there, in one or several connection strings.
pub fn passwords_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, mark) in text.match_indices("://") {
        let rest = &text[at + mark.len()..];
        let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
        if let Some((_, password)) = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')) {
            found.push(password.to_string());
        }
    }
    for (at, mark) in text.match_indices("password=") {
        let rest = &text[at + mark.len()..];
        let length = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.find('\'').map_or(rest.len(), |end| end + 2),
            None => rest.find(|c: char| c.is_whitespace() || c == '&').unwrap_or(rest.len()),
        };
        found.push(rest[..length].trim_matches('\'').to_string());
    }
    found.retain(|password| !password.is_empty());
    found
}

/// Overwrites a secret in this process's own arguments, which everybody on the host can read, as `ps` does.
pub fn hide_in_own_arguments(secret: &str) {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return };
    // proc(5): fields 48 and 49 are where the arguments begin and end; the name may hold spaces, so count behind it.
    let Some((_, rest)) = stat.rsplit_once(')') else { return };
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let at = |n: usize| fields.get(n - 3).and_then(|f| f.parse::<usize>().ok()).filter(|a| *a > 0);
    let (Some(start), Some(end)) = (at(48), at(49)) else { return };
    if secret.is_empty() || end <= start {
        return;
    }
    // SAFETY: the kernel says that the arguments of this very process lie there, on its own writable stack, and they
    // stay there for its life. Only bytes within are changed, none beyond, and no reference outlives this block; code
    // that reads its arguments again reads other text of the same length.
    let arguments = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) };
    let found: Vec<usize> = memchr::memmem::find_iter(arguments, secret.as_bytes()).collect();
    for place in found {
        arguments[place..place + secret.len()].fill(b'x');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_password() {
        for text in [
            "postgresql://bob:s3cret@db.example:5433/shop?sslmode=verify-full&sslrootcert=%2Fca.pem",
            "host=db.example port=5433 user=bob password=s3cret dbname=shop sslmode=verify-full sslrootcert=/ca.pem",
        ] {
            let dsn = Dsn::parse(text).unwrap();
            assert_eq!(dsn.shown, "postgresql://bob@db.example:5433/shop");
            assert_eq!(dsn.config.get_password(), Some(&b"s3cret"[..]));
            assert!(dsn.checks_name && dsn.is_encrypted_by_demand());
            assert_eq!(dsn.roots.as_deref(), Some("/ca.pem"));
        }
        let socket = Dsn::parse("postgresql://bob@/shop?host=%2Ftmp%2Fx&port=5432").unwrap();
        assert_eq!(socket.shown, "postgresql://bob@/shop?host=/tmp/x&port=5432");
    }

    #[test]
    fn a_refusal_quotes_nothing_of_it() {
        for text in ["postgresql://bob:s3cret@h:port/x", "host=h s3cret=1", "postgresql://bob:s3?cret=1@h/x", "s3cret"]
        {
            let error = Dsn::parse(text).err().unwrap_or_default();
            assert!(!error.contains("s3") && !error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn passwords_are_found_as_they_are_written() {
        let text = "postgresql://a:p%40w@h/x,postgresql://b@h/x?password=q&port=1,host=h password='r s' user=c";
        assert_eq!(passwords_in(text), ["p%40w", "q", "r s"]);
    }

    #[test]
    fn password_files_escape_with_backslashes() {
        assert_eq!(unescaped(r"h:*:d\:b:u:p\\w"), ["h", "*", "d:b", "u", r"p\w"]);
    }
}
