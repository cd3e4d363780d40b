//! What was published, with its source: the one place for it.

/// A published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The table that it belongs to.
    pub table: &'static str,
    /// Which cell: what was run, and where.
    pub cell: &'static str,
    /// The number.
    pub value: f64,
    /// What it counts.
    pub unit: &'static str,
}

/// A table, and where it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name on the command line.
    pub table: &'static str,
    /// What it shows, in a phrase.
    pub shows: &'static str,
    /// Who, where and when.
    pub citation: &'static str,
}

/// The tables that can be reproduced.
pub const SOURCES: &[Source] = &[
    Source {
        table: "ftruncate",
        shows: "32 fio jobs that truncate files under lazytime, before and after the patch",
        citation: "Konstantin Khlebnikov to linux-fsdevel, 30 January 2020, \
                   \"ext4: avoid spinlock congestion in lazytime optimization\"",
    },
    Source {
        table: "lazyinit",
        shows: "how long ext4lazyinit takes after a mount, before and after the patch",
        citation: "Shaoying Xu to linux-ext4, 20 September 2021, \
                   \"ext4: fix lazy initialization next schedule time computation in more granular unit\"",
    },
    Source {
        table: "cyclictest",
        shows: "how late a real-time task wakes up beside a dd, before and after the patch (cyclictest -t1 -p80 -n -i5000 -l20000)",
        citation: "Michal Schmidt, quoted by Theodore Ts'o to linux-ext4, 1 March 2010, \
                   \"ext4: reduce scheduling latency with delayed allocation\"",
    },
];

const fn cell(table: &'static str, cell: &'static str, value: f64, unit: &'static str) -> Published {
    Published {
        table,
        cell,
        value,
        unit,
    }
}

/// All numbers.
pub const PUBLISHED: &[Published] = &[
    cell("ftruncate", "spin", 50_000.0, "operations a second"),
    cell("ftruncate", "trylock-break", 3_000_000.0, "operations a second"),
    cell("lazyinit", "jiffies, 2 TiB, c6g.2xlarge", 1842.0, "seconds"),
    cell("lazyinit", "jiffies, 2 TiB, c5.2xlarge", 743.0, "seconds"),
    cell("lazyinit", "jiffies, 3 TiB, c6g.2xlarge", 2690.0, "seconds"),
    cell("lazyinit", "jiffies, 3 TiB, c5.2xlarge", 1110.0, "seconds"),
    cell("lazyinit", "ktime, 2 TiB, c6g.2xlarge", 660.0, "seconds"),
    cell("lazyinit", "ktime, 2 TiB, c5.2xlarge", 544.0, "seconds"),
    cell("lazyinit", "ktime, 3 TiB, c6g.2xlarge", 1053.0, "seconds"),
    cell("lazyinit", "ktime, 3 TiB, c5.2xlarge", 932.0, "seconds"),
    cell("cyclictest", "without the patch, least", 12.0, "µs"),
    cell("cyclictest", "without the patch, average", 3166.0, "µs"),
    cell("cyclictest", "without the patch, greatest", 70_524.0, "µs"),
    cell("cyclictest", "with the patch, least", 13.0, "µs"),
    cell("cyclictest", "with the patch, average", 49.0, "µs"),
    cell("cyclictest", "with the patch, greatest", 11_009.0, "µs"),
];
