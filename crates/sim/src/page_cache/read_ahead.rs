//! What is read before it is asked for, by the rules of Linux since 2.6.23 (mm/readahead.c): a window that begins with up
//! to four times the request, doubles up to a limit, and is followed by the next when the page is used that marks the part
//! of it that nobody asked for.
//!
//! Linux keeps a window an open file. A target is opened once, so that all who use it share one; several who read in
//! order go on by their markers.

/// What is to be read: so many pages from the first, with the marker so many before the end; none where it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    pub first: u64,
    pub pages: u64,
    pub ahead: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ReadAhead {
    start: u64,
    size: u64,
    ahead: u64,
    /// The last page that anyone read, and one more; 0 at first.
    before: u64,
}

fn first_size(request: u64, most: u64) -> u64 {
    let size = request.next_power_of_two();
    match size {
        _ if size <= most / 32 => size * 4,
        _ if size <= most / 4 => size * 2,
        _ => most,
    }
}

fn next_size(size: u64, most: u64) -> u64 {
    match size {
        _ if size < most / 16 => size * 4,
        _ if size <= most / 2 => size * 2,
        _ => most,
    }
}

impl ReadAhead {
    /// A call has ended with this page.
    pub fn has_read(&mut self, last: u64) {
        self.before = last + 1;
    }

    /// `page` is wanted and not there, with `request` pages from it on. `most` is the largest window; 0 reads nothing
    /// ahead.
    pub fn missed(&mut self, page: u64, request: u64, most: u64, is_there: impl Fn(u64) -> bool) -> Fetch {
        let alone = Fetch { first: page, pages: request, ahead: 0 };
        if most == 0 {
            return alone;
        }
        let end = self.start + self.size;
        if page > 0 && self.size > 0 && (page == end || page == end - self.ahead) {
            self.go_on(most);
            return self.window(page, most);
        }
        if page == 0 || request > most || page == self.before || page + 1 == self.before {
            return self.begin(page, request, most);
        }
        // In the order of what lies in memory before it: somebody reads in order, whom the window does not know.
        let history = (1..=most.min(page)).take_while(|back| is_there(page - back)).count() as u64;
        if history <= request {
            return alone;
        }
        let history = if history >= page { history * 2 } else { history };
        (self.start, self.size, self.ahead) = (page, (history + request).min(most), 1);
        self.window(page, most)
    }

    /// The marked page is used: what follows what is there is read, if that is near.
    pub fn marked(&mut self, page: u64, request: u64, most: u64, is_there: impl Fn(u64) -> bool) -> Option<Fetch> {
        if most == 0 {
            return None;
        }
        let end = self.start + self.size;
        if self.size > 0 && (page == end || page == end - self.ahead) {
            self.go_on(most);
            return Some(self.window(page, most));
        }
        let next = (page + 1..=page + most).find(|next| !is_there(*next))?;
        self.start = next;
        self.size = next_size(next - page + request, most);
        self.ahead = self.size;
        Some(self.window(page, most))
    }

    fn begin(&mut self, page: u64, request: u64, most: u64) -> Fetch {
        self.start = page;
        self.size = first_size(request, most);
        self.ahead = if self.size > request { self.size - request } else { self.size };
        self.window(page, most)
    }

    fn go_on(&mut self, most: u64) {
        self.start += self.size;
        self.size = next_size(self.size, most);
        self.ahead = self.size;
    }

    /// A window that the wanted page begins and that would be all ahead takes the next one with it.
    fn window(&mut self, page: u64, most: u64) -> Fetch {
        if page == self.start && self.size == self.ahead {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.ahead = more;
                self.size += more;
            } else {
                self.size = most;
                self.ahead = most / 2;
            }
        }
        Fetch { first: self.start, pages: self.size, ahead: self.ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 32;

    #[test]
    fn a_stream_reads_a_window_of_its_own_and_then_larger_ones_up_to_the_limit() {
        let mut window = ReadAhead::default();
        let first = window.missed(0, 1, MOST, |_| false);
        assert_eq!(first, Fetch { first: 0, pages: 4, ahead: 3 });
        let mut marked = first.first + first.pages - first.ahead;
        let mut sizes = Vec::new();
        for _ in 0..4 {
            let next = window.marked(marked, 1, MOST, |_| true).expect("the stream goes on");
            sizes.push(next.pages);
            marked = next.first + next.pages - next.ahead;
        }
        assert_eq!(sizes, [8, 16, 32, 32]);
    }

    #[test]
    fn what_is_read_at_random_is_read_alone() {
        let mut window = ReadAhead::default();
        window.has_read(999);
        assert_eq!(window.missed(500, 2, MOST, |_| false), Fetch { first: 500, pages: 2, ahead: 0 });
    }

    #[test]
    fn two_streams_on_one_open_file_both_keep_windows() {
        let mut window = ReadAhead::default();
        let _ = window.missed(0, 1, MOST, |_| false);
        // Another reader has taken the window elsewhere; what follows the marker is not there from page 4 on.
        let _ = window.missed(1_000_000, 64, MOST, |_| false);
        let next = window.marked(1, 1, MOST, |page| page < 4).expect("it goes on");
        assert_eq!((next.first, next.pages), (4, 8));
    }
}
