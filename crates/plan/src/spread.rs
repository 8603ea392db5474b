//! A profile of one target over several: each stream runs on each of them.

use crate::{Mistake, Profile};

impl Profile {
    /// Every stream once for each target, named after both.
    pub fn spread(mut self, targets: &[String]) -> Result<Profile, Mistake> {
        if self.target_count() > 1 {
            let count = self.target_count();
            return Err(Mistake::from(format!("the profile speaks of {count} targets already; take --each away")));
        }
        let labels = labels(targets);
        for phase in &mut self.phase {
            let mut spread = Vec::with_capacity(phase.stream.len() * targets.len());
            for (number, stream) in phase.stream.iter().enumerate() {
                for (target, label) in labels.iter().enumerate() {
                    let mut one = stream.clone();
                    one.target = target;
                    let name =
                        if stream.name.is_empty() { format!("stream {}", number + 1) } else { stream.name.clone() };
                    one.name = format!("{name} on {label}");
                    spread.push(one);
                }
            }
            phase.stream = spread;
        }
        self.each = false;
        self.validate()?;
        Ok(self)
    }
}

/// The last part of each path, or the whole of it where two end alike.
fn labels(targets: &[String]) -> Vec<String> {
    let last = |path: &String| path.trim_end_matches('/').rsplit('/').next().unwrap_or(path).to_string();
    let alike = |label: &String| targets.iter().filter(|t| last(t) == *label).count() > 1;
    targets.iter().map(|path| if alike(&last(path)) { path.clone() } else { last(path) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = 't'\n[[phase]]\nduration = '1s'\nlockstep = { requests = 1 }\n\
                        [[phase.stream]]\nname = 'read'\nrequest = '4K'\n[[phase.stream]]\nrequest = '8K'\n";

    #[test]
    fn each_stream_on_each_target() {
        let paths = ["/dev/sdb".to_string(), "/a/x".into(), "/b/x".into()];
        let spread = Profile::from_toml(TEXT, &[]).and_then(|p| p.spread(&paths)).expect("valid");
        let told: Vec<(usize, &str)> = spread.phase[0].stream.iter().map(|s| (s.target, s.name.as_str())).collect();
        assert_eq!(told[..3], [(0, "read on sdb"), (1, "read on /a/x"), (2, "read on /b/x")]);
        assert_eq!(told[3], (0, "stream 2 on sdb"));
        assert_eq!(spread.target_count(), 3);
        assert!(spread.spread(&paths).is_err(), "once is enough");
    }
}
