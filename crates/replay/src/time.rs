//! Duty: time stamps of logs as ns since 1970, UTC. Refusal: no clock, no time zone but what the stamp says.

pub const SECOND_NS: i64 = 1_000_000_000;
/// Instants of these years, and their differences, fit ns of 64 bits; no server has written any other.
const YEARS: std::ops::RangeInclusive<i64> = 1970..=2200;
const LATEST_NS: i64 = 7_300_000_000 * SECOND_NS;
const MONTHS: &[u8] = b"janfebmaraprmayjunjulaugsepoctnovdec";

/// When a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub at_ns: i64,
    /// The log gives no fraction: the request came somewhere within this second.
    pub whole_second: bool,
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn is_date(year: i64, month: u32, day: u32) -> bool {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    YEARS.contains(&year) && (1..=12).contains(&month) && day >= 1 && day <= days[month as usize - 1]
}

#[inline]
fn digits(text: &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
    }
    Some(value)
}

/// `2003-06-02`, as days since 1970.
#[inline]
pub fn date(text: &[u8]) -> Option<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else { return None };
    let (year, month, day) = (digits(&[y0, y1, y2, y3])?, digits(&[m0, m1])?, digits(&[d0, d1])?);
    let year = i64::from(year);
    is_date(year, month, day).then(|| days_from_civil(year, month, day))
}

/// `10:00:59` or `10:00:59.123` as ns of the day. A leap second counts as the second before it.
#[inline]
pub fn time_of_day(text: &[u8]) -> Option<Stamp> {
    let (clock, fraction) = text.split_at_checked(8)?;
    let [h0, h1, b':', m0, m1, b':', s0, s1] = *clock else { return None };
    let (hour, minute, second) = (digits(&[h0, h1])?, digits(&[m0, m1])?, digits(&[s0, s1])?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second.min(59));
    let fraction_ns = match fraction {
        [] => None,
        [b'.' | b',', rest @ ..] => Some(fraction_of(rest)?),
        _ => return None,
    };
    Some(Stamp { at_ns: seconds * SECOND_NS + fraction_ns.unwrap_or(0), whole_second: fraction_ns.is_none() })
}

fn fraction_of(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 12 {
        return None;
    }
    let mut value = 0;
    for place in 0..9 {
        let digit = text.get(place).map_or(Some(0), |b| b.is_ascii_digit().then(|| b - b'0'))?;
        value = value * 10 + i64::from(digit);
    }
    text.iter().all(u8::is_ascii_digit).then_some(value)
}

/// `+0200`, `-07:00`, `Z` as seconds east of Greenwich.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match *text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, h0, h1, m0, m1] | [sign, h0, h1, b':', m0, m1] => (sign, digits(&[h0, h1])?, digits(&[m0, m1])?),
        _ => return None,
    };
    let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// `10/Oct/2000:13:55:36 -0700`, as Apache and nginx write it.
#[inline]
pub fn common(text: &[u8]) -> Option<Stamp> {
    let (head, rest) = text.split_at_checked(12)?;
    let [d0, d1, b'/', a, b, c, b'/', y0, y1, y2, y3, b':'] = *head else { return None };
    let name = [a | 0x20, b | 0x20, c | 0x20];
    let month = MONTHS.as_chunks::<3>().0.iter().position(|m| *m == name)? as u32 + 1;
    let (day, year) = (digits(&[d0, d1])?, i64::from(digits(&[y0, y1, y2, y3])?));
    if !is_date(year, month, day) {
        return None;
    }
    let space = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let stamp = time_of_day(&rest[..space])?;
    let east_s = zone(rest[space..].trim_ascii())?;
    let days = days_from_civil(year, month, day);
    Some(Stamp { at_ns: (days * 86_400 - east_s) * SECOND_NS + stamp.at_ns, ..stamp })
}

/// What JSON logs hold: ISO 8601, the form of Apache, or seconds, ms, µs or ns since 1970 as text.
pub fn any(text: &[u8]) -> Option<Stamp> {
    if let Some((day, rest)) = text.split_at_checked(10)
        && let Some(days) = date(day)
    {
        let [b'T' | b't' | b' ', rest @ ..] = rest else { return None };
        let at = rest.iter().position(|b| matches!(b, b'Z' | b'z' | b'+' | b'-' | b' ')).unwrap_or(rest.len());
        let stamp = time_of_day(&rest[..at])?;
        let east_s = zone(rest[at..].trim_ascii())?;
        return Some(Stamp { at_ns: (days * 86_400 - east_s) * SECOND_NS + stamp.at_ns, ..stamp });
    }
    common(text).or_else(|| number(std::str::from_utf8(text).ok()?))
}

/// Seconds since 1970 with an optional fraction, or whole ms, µs or ns, told apart by their size.
pub fn number(text: &str) -> Option<Stamp> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(w, f)| (w, Some(f)));
    let seconds: i64 = whole.parse().ok().filter(|v| *v >= 0)?;
    let stamp = match fraction {
        // Whichever unit: no log is older than 1973 or younger than 5138 in seconds.
        None if seconds < 100_000_000_000 => Some(Stamp { at_ns: seconds.checked_mul(SECOND_NS)?, whole_second: true }),
        None => {
            let unit_ns = [(100_000_000_000_000, 1_000_000), (100_000_000_000_000_000, 1_000)];
            let factor = unit_ns.iter().find(|(below, _)| seconds < *below).map_or(1, |(_, f)| *f);
            Some(Stamp { at_ns: seconds.checked_mul(factor)?, whole_second: false })
        }
        Some(_) if seconds >= 100_000_000_000 => number(whole).map(|stamp| Stamp { whole_second: false, ..stamp }),
        Some(fraction) => {
            let short = &fraction.as_bytes()[..fraction.len().min(12)];
            let at_ns = seconds.checked_mul(SECOND_NS)?.checked_add(fraction_of(short)?)?;
            Some(Stamp { at_ns, whole_second: false })
        }
    };
    stamp.filter(|stamp| stamp.at_ns <= LATEST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_instant_in_every_form() {
        let at_ns = 971_211_336 * SECOND_NS; // date -ud '2000-10-10 20:55:36' +%s
        for text in [
            "10/Oct/2000:13:55:36 -0700",
            "10/oct/2000:20:55:36 +0000",
            "2000-10-10T20:55:36Z",
            "2000-10-10 22:55:36+02:00",
            "971211336",
        ] {
            assert_eq!(any(text.as_bytes()), Some(Stamp { at_ns, whole_second: true }), "{text}");
        }
        for text in ["2000-10-10T20:55:36.000Z", "971211336.000", "971211336000", "971211336000000"] {
            assert_eq!(any(text.as_bytes()), Some(Stamp { at_ns, whole_second: false }), "{text}");
        }
        assert_eq!(any(b"2000-10-10T20:55:36.123456Z").unwrap().at_ns, at_ns + 123_456_000);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "7604-06-02T10:00:00Z",
            "0001-01-01T00:00:00Z",
            "02/Jun/9999:10:00:00 +0000",
            "99999999999",
            "9223372036854775807",
            "99999999999.5",
        ] {
            assert_eq!(any(text.as_bytes()), None, "{text}: no ns of 64 bits");
        }
        for text in ["", "-", "2000-13-01T00:00:00Z", "2000-02-30T00:00:00Z", "31/Feb/2000:00:00:00 +0000", "x", "-5"] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
        assert!(date(b"2001-02-29").is_none() && date(b"2000-02-29") == Some(11_016));
    }
}
