//! Numbers, times and places as text.

use view::explore::Moment;

/// A whole number with narrow spaces between groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// So many of something; `one` is its name in the singular.
pub(crate) fn many(number: impl Into<u64>, one: &str) -> String {
    match number.into() {
        1 => format!("1 {one}"),
        number => format!("{} {one}s", count(number)),
    }
}

/// A number of bytes with a unit.
pub(crate) fn bytes(number: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit < units.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value.fract() < 0.05 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[unit])
}

/// A rate or a large number, to three digits.
pub(crate) fn short(number: f64) -> String {
    let (value, unit) = match number {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let digits = if value >= 100.0 || (unit.is_empty() && value.fract() == 0.0) {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}

/// A span of time with a unit.
pub(crate) fn span(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    let digits = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

/// Milliseconds before and after 1970 that a browser's calendar reaches.
const CALENDAR_MS: f64 = 8.64e15;

/// A moment in UTC; one that no calendar reaches by its number.
pub(crate) fn moment(moment: Moment) -> String {
    let milliseconds = moment.seconds as f64 * 1000.0;
    if milliseconds.abs() > CALENDAR_MS {
        return format!("{} seconds from 1970", moment.seconds);
    }
    let date = js_sys::Date::new(&milliseconds.into());
    let text = date.to_iso_string().as_string().unwrap_or_default();
    let text = text.split('.').next().unwrap_or_default().replace('T', " ");
    match moment.nanoseconds {
        0 => format!("{text} UTC"),
        nanoseconds => format!("{text}.{nanoseconds:09} UTC"),
    }
}

/// A file's name or a path, with what cannot be shown escaped.
pub(crate) fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .flat_map(|letter| match letter.is_control() {
            true => letter.escape_default().collect::<Vec<_>>(),
            false => vec![letter],
        })
        .collect()
}
