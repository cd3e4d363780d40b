//! The trace for other programs: Chrome's JSON form, which Perfetto opens, CSV, and JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use crate::{Event, Kind, Meaning, Numbered};

/// What the numbers of objects are called.
pub trait Names {
    /// The lock with this number.
    fn lock(&self, lock: u32) -> String;
}

/// Nanoseconds as microseconds with three decimals, as Chrome's form wants them.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Writes events as Chrome trace JSON: a track for each CPU, with slices for waiting, holding and operations, arrows
/// from who gave a lock back to who had waited for it, and a counter of operations.
pub struct Chrome<W, N> {
    out: W,
    names: N,
    first: bool,
    /// Slices open on each CPU, outermost first.
    open: BTreeMap<u16, Vec<Slice>>,
    /// Which CPU gave each lock back last, and when.
    released: BTreeMap<u32, (u16, u64)>,
    flows: u64,
    operations: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slice {
    Operation,
    Wait(u32),
    Hold(u32),
}

impl<W: Write, N: Names> Chrome<W, N> {
    /// Begins the file.
    ///
    /// # Errors
    /// As writing to `out`; so have all others here.
    pub fn new(mut out: W, names: N, cpus: u16) -> io::Result<Self> {
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut chrome = Self {
            out,
            names,
            first: true,
            open: BTreeMap::new(),
            released: BTreeMap::new(),
            flows: 0,
            operations: 0,
        };
        chrome.item(r#""ph":"M","pid":1,"name":"process_name","args":{"name":"Simulated CPUs"}"#)?;
        for cpu in 0..cpus {
            chrome.item(&format!(
                r#""ph":"M","pid":1,"tid":{cpu},"name":"thread_name","args":{{"name":"CPU {cpu}"}}"#
            ))?;
            chrome.item(&format!(
                r#""ph":"M","pid":1,"tid":{cpu},"name":"thread_sort_index","args":{{"sort_index":{cpu}}}"#
            ))?;
        }
        Ok(chrome)
    }

    fn item(&mut self, fields: &str) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n{{{fields}}}")
    }

    /// Takes in the next event.
    pub fn add(&mut self, event: &Event) -> io::Result<()> {
        match event.kind {
            Kind::OperationBegin => self.begin(event, Slice::Operation),
            Kind::OperationEnd => {
                self.operations += 1;
                let (at, operations) = (Microseconds(event.time_ns), self.operations);
                self.end(event, Slice::Operation)?;
                self.item(&format!(
                    r#""ph":"C","pid":1,"ts":{at},"name":"operations","args":{{"done":{operations}}}"#
                ))
            }
            Kind::LockContended => self.begin(event, Slice::Wait(event.object)),
            Kind::LockAcquired => {
                let waited = self.end(event, Slice::Wait(event.object))?;
                self.begin(event, Slice::Hold(event.object))?;
                if waited && let Some((from, since_ns)) = self.released.get(&event.object).copied() {
                    self.flow(event, from, since_ns)?;
                }
                Ok(())
            }
            Kind::LockReleased => {
                self.released.insert(event.object, (event.cpu, event.time_ns));
                self.end(event, Slice::Hold(event.object)).map(|_| ())
            }
            // One for each line of the cache that moves is more than a picture bears.
            Kind::LockAttempt | Kind::LineTransfer => Ok(()),
            kind => {
                let legend = kind.legend();
                let (cpu, at, name) = (event.cpu, Microseconds(event.time_ns), quoted(legend.name));
                let (object, argument) = (event.object, event.argument);
                self.item(&format!(
                    r#""ph":"i","s":"t","pid":1,"tid":{cpu},"ts":{at},"name":{name},"args":{{"object":{object},"argument":{argument}}}"#
                ))
            }
        }
    }

    fn begin(&mut self, event: &Event, slice: Slice) -> io::Result<()> {
        let name = match slice {
            Slice::Operation => format!("operation on inode {}", event.object),
            Slice::Wait(lock) => format!("waits for {}", self.names.lock(lock)),
            Slice::Hold(lock) => format!("holds {}", self.names.lock(lock)),
        };
        let (cpu, at, name) = (event.cpu, Microseconds(event.time_ns), quoted(&name));
        self.open.entry(cpu).or_default().push(slice);
        self.item(&format!(
            r#""ph":"B","pid":1,"tid":{cpu},"ts":{at},"name":{name}"#
        ))
    }

    /// Ends a slice, and whatever is still open inside it: slices of a track have to nest. `false` where none is open.
    fn end(&mut self, event: &Event, slice: Slice) -> io::Result<bool> {
        let open = self.open.entry(event.cpu).or_default();
        let Some(depth) = open.iter().rposition(|one| *one == slice) else {
            return Ok(false);
        };
        let inner: Vec<Slice> = open.drain(depth..).skip(1).collect();
        for _ in 0..=inner.len() {
            self.close(event.cpu, event.time_ns)?;
        }
        for slice in inner {
            self.begin(event, slice)?;
        }
        Ok(true)
    }

    fn close(&mut self, cpu: u16, time_ns: u64) -> io::Result<()> {
        let at = Microseconds(time_ns);
        self.item(&format!(r#""ph":"E","pid":1,"tid":{cpu},"ts":{at}"#))
    }

    fn flow(&mut self, event: &Event, from: u16, since_ns: u64) -> io::Result<()> {
        self.flows += 1;
        let (id, to) = (self.flows, event.cpu);
        let (begun, at) = (Microseconds(since_ns), Microseconds(event.time_ns));
        let common = r#""pid":1,"cat":"lock","name":"hands over""#;
        self.item(&format!(
            r#""ph":"s",{common},"id":{id},"tid":{from},"ts":{begun}"#
        ))?;
        self.item(&format!(
            r#""ph":"f","bp":"e",{common},"id":{id},"tid":{to},"ts":{at}"#
        ))
    }

    /// Ends the file; what is still open ends at `time_ns`.
    pub fn finish(mut self, time_ns: u64) -> io::Result<W> {
        for (cpu, open) in std::mem::take(&mut self.open) {
            for _ in open {
                self.close(cpu, time_ns)?;
            }
        }
        write!(self.out, "\n]}}\n")?;
        Ok(self.out)
    }
}

/// The first line of [`csv_line`]'s file.
pub const CSV_HEAD: &str = "number,time_ns,cpu,kind,object,object_is,argument";

/// An event as a line of CSV.
pub fn csv_line(record: &Numbered, names: &impl Names) -> String {
    let Numbered { number, event } = record;
    let (object, object_is) = object(event, names);
    let (time_ns, cpu, argument) = (event.time_ns, event.cpu, event.argument);
    let kind = event.kind.legend().name;
    format!("{number},{time_ns},{cpu},{kind},{object},{object_is},{argument}")
}

/// An event as a JSON object.
pub fn json_line(record: &Numbered, names: &impl Names) -> String {
    let Numbered { number, event } = record;
    let (object, object_is) = object(event, names);
    let (time_ns, cpu, argument) = (event.time_ns, event.cpu, event.argument);
    let (kind, object_is) = (quoted(event.kind.legend().name), quoted(&object_is));
    format!(
        r#"{{"number":{number},"time_ns":{time_ns},"cpu":{cpu},"kind":{kind},"object":{object},"object_is":{object_is},"argument":{argument}}}"#
    )
}

fn object(event: &Event, names: &impl Names) -> (u32, String) {
    let is = match event.kind.legend().object {
        Meaning::Nothing => String::new(),
        Meaning::Lock => names.lock(event.object),
        Meaning::Line => "cache line".to_owned(),
        Meaning::Inode => "inode".to_owned(),
        Meaning::Cpu => "CPU".to_owned(),
        Meaning::Group => "group".to_owned(),
    };
    (event.object, is)
}

/// A JSON string. Names hold no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Locks;

    impl Names for Locks {
        fn lock(&self, lock: u32) -> String {
            format!("lock \"{lock}\"")
        }
    }

    fn event(time_ns: u64, cpu: u16, kind: Kind, object: u32) -> Event {
        Event {
            time_ns,
            cpu,
            kind,
            object,
            argument: 0,
        }
    }

    /// Slices nest on every track, arrows pair up, and whatever is open at the end is closed.
    #[test]
    fn the_chrome_form_is_what_perfetto_reads() {
        let mut chrome = Chrome::new(Vec::new(), Locks, 2).expect("memory can be written");
        for event in [
            event(1_000, 0, Kind::OperationBegin, 12),
            event(1_100, 0, Kind::LockAcquired, 3),
            event(1_200, 0, Kind::LockAcquired, 4),
            event(1_250, 1, Kind::LockContended, 3),
            // Given back in the order in which they were taken.
            event(1_300, 0, Kind::LockReleased, 3),
            event(1_420, 1, Kind::LockAcquired, 3),
            event(1_500, 0, Kind::LockReleased, 4),
            event(1_600, 0, Kind::OperationEnd, 12),
            event(1_700, 1, Kind::Wake, 0),
        ] {
            chrome.add(&event).expect("memory can be written");
        }
        let bytes = chrome.finish(2_000).expect("memory can be written");
        let json: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
        let items = json["traceEvents"].as_array().expect("a list");
        let mut depth = [0i32; 2];
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for item in items {
            let tid = item["tid"].as_u64().unwrap_or(0) as usize;
            match item["ph"].as_str().expect("each has a phase") {
                "B" => depth[tid] += 1,
                "E" => {
                    depth[tid] -= 1;
                    assert!(depth[tid] >= 0);
                }
                "s" => starts.push(item["id"].clone()),
                "f" => ends.push(item["id"].clone()),
                _ => {}
            }
        }
        assert_eq!(depth, [0, 0]);
        assert_eq!((starts.len(), &starts), (1, &ends));
        let text = String::from_utf8(bytes).expect("it is text");
        assert!(text.contains(r#""ts":1.420"#), "{text}");
        assert!(text.contains(r#"holds lock \"3\""#), "{text}");
    }

    #[test]
    fn a_line_of_csv_and_of_json_say_the_same() {
        let record = Numbered {
            number: 4,
            event: event(77, 3, Kind::InodeWritten, 12),
        };
        assert_eq!(csv_line(&record, &Locks), "4,77,3,Write inode,12,inode,0");
        let json: serde_json::Value = serde_json::from_str(&json_line(&record, &Locks)).expect("it is JSON");
        assert_eq!(json["object_is"], "inode");
        assert_eq!(json["time_ns"], 77);
    }
}
