//! Paths of a mapping: exact ones by a sorted table, others by segments with captures. Case does not count.

/// A capture is (name, start, end) within the path.
#[derive(Default)]
pub struct Captures(Vec<(String, usize, usize)>);

impl Captures {
    pub fn get<'a>(&self, name: &str, path: &'a [u8]) -> Option<&'a [u8]> {
        self.0.iter().find(|(n, _, _)| n == name).map(|(_, from, to)| &path[*from..*to])
    }
}

pub enum Segment {
    Fixed(Vec<u8>),
    One(String),
    /// All that is left, slashes included.
    Rest(String),
}

#[derive(Default)]
pub struct Paths {
    /// Path in lower case, calls in the order of the file; sorted by path. Patterns are among all of them.
    exact: Vec<(Vec<u8>, Vec<u16>)>,
    patterns: Vec<u16>,
    segments: Vec<Option<Vec<Segment>>>,
}

impl Paths {
    pub fn new(paths: &[String]) -> Result<Paths, (usize, String)> {
        let mut made = Paths::default();
        for (number, path) in paths.iter().enumerate() {
            if !path.starts_with('/') {
                return Err((number, format!("path `{path}` does not begin with /")));
            }
            let segments = parse(path).map_err(|e| (number, e))?;
            if segments.is_some() {
                made.patterns.push(number as u16);
            }
            made.segments.push(segments);
        }
        let is_exact = |n: &usize| made.segments[*n].is_none();
        let mut names: Vec<Vec<u8>> =
            (0..paths.len()).filter(is_exact).map(|n| paths[n].to_ascii_lowercase().into_bytes()).collect();
        names.sort();
        names.dedup();
        for name in names {
            // Patterns stand in every list, so that the order of the file decides.
            let takes = |n: &u16| {
                let n = usize::from(*n);
                made.segments[n].is_some() || paths[n].to_ascii_lowercase().as_bytes() == name
            };
            let numbers = (0..paths.len() as u16).filter(takes).collect();
            made.exact.push((name, numbers));
        }
        Ok(made)
    }

    /// Calls that may take a path, in the order of the file.
    #[inline]
    pub fn candidates(&self, lower: &[u8]) -> &[u16] {
        match self.exact.binary_search_by(|(name, _)| name.as_slice().cmp(lower)) {
            Ok(at) => &self.exact[at].1,
            Err(_) => &self.patterns,
        }
    }

    #[inline]
    pub fn matches(&self, call: u16, path: &[u8], lower: &[u8], captures: &mut Captures) -> bool {
        let Some(segments) = &self.segments[usize::from(call)] else { return true };
        captures.0.clear();
        let mut from = 1;
        for segment in segments {
            if from > path.len() {
                return false;
            }
            let length = memchr::memchr(b'/', &path[from..]).unwrap_or(path.len() - from);
            match segment {
                Segment::Fixed(text) if lower[from..from + length] == **text => {}
                Segment::Fixed(_) => return false,
                Segment::One(_) if length == 0 => return false,
                Segment::One(name) => captures.0.push((name.clone(), from, from + length)),
                Segment::Rest(name) => {
                    captures.0.push((name.clone(), from, path.len()));
                    return true;
                }
            }
            from += length + 1;
        }
        from == path.len() + 1
    }
}

/// None for a path without captures.
fn parse(path: &str) -> Result<Option<Vec<Segment>>, String> {
    if !path.contains(['{', '}']) {
        return Ok(None);
    }
    let mut made: Vec<Segment> = Vec::new();
    for text in path[1..].split('/') {
        if matches!(made.last(), Some(Segment::Rest(_))) {
            return Err(format!("path `{path}`: nothing can follow {{…*}}, which takes all that is left"));
        }
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        made.push(match inner {
            Some(name) => match name.strip_suffix('*') {
                Some(name) if is_name(name) => Segment::Rest(name.to_string()),
                None if is_name(name) => Segment::One(name.to_string()),
                _ => return Err(format!("path `{path}`: `{name}` is no name")),
            },
            None if text.contains(['{', '}']) => {
                return Err(format!("path `{path}`: a capture is a whole segment, such as /{{name}}/"));
            }
            None => Segment::Fixed(text.to_ascii_lowercase().into_bytes()),
        });
    }
    Ok(Some(made))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Names of the captures of a path.
pub fn captures_of(path: &str) -> Vec<String> {
    let named = |s| match s {
        Segment::One(name) | Segment::Rest(name) => Some(name),
        Segment::Fixed(_) => None,
    };
    parse(path).ok().flatten().unwrap_or_default().into_iter().filter_map(named).collect()
}
