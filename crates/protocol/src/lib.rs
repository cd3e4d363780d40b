//! Messages between the page and its engines: what they say, and how they travel.
//!
//! A message is a serde value in postcard's form inside one `Uint8Array`. What has no such form (the image's `Blob`)
//! travels beside it in the same JavaScript object; `web/worker.js` says under which name.

#![forbid(unsafe_code)]

use kernel::Scenario;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use view::{
    changes::{ChangedBlocks, Changes},
    explore::{
        BlockCard, BlockMap, Content, DirectoryPage, GroupRow, InodeCard, InodeDetails, JournalCard, Link,
        OrphansCard, Overview, ReadingState, TableWindow,
    },
    live::{Stage, Status},
};

/// What the page asks of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the reply, so that the page knows which question it answers.
    pub id: u32,
    /// The question.
    pub body: Ask,
}

/// A question. The plain engine answers all but those of a live run; the threaded one answers only those and `Open`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Open the image that travels beside the message.
    Open {
        /// The file's name, for messages.
        name: String,
        /// Which part of it, and how.
        choice: Choice,
    },
    /// Rows of the group list.
    Groups {
        /// The first group.
        first: u32,
        /// How many, at most [`GROUPS_MAX`].
        count: u32,
    },
    /// The states of the inode slots of a run of blocks of one group's inode table.
    Table {
        /// The group.
        group: u32,
        /// The first block, counted from the start of that table.
        first: u32,
        /// How many blocks, at most [`TABLE_BLOCKS_MAX`].
        count: u32,
    },
    /// Everything about one inode.
    Inode {
        /// Its number.
        number: u32,
    },
    /// What hangs on one inode: path, map, attributes.
    Details {
        /// Its number.
        number: u32,
    },
    /// A part of a directory.
    Directory {
        /// Its inode.
        number: u32,
        /// The first entry wanted.
        first: u32,
    },
    /// A part of a file's content, at most 64 KiB.
    Content {
        /// Its inode.
        number: u32,
        /// Where the part begins.
        offset: u64,
    },
    /// A file's content as a whole, for the browser to keep or to show; at most [`CONTENT_MAX`] bytes.
    Whole {
        /// Its inode.
        number: u32,
    },
    /// One block.
    Block {
        /// Its number.
        number: u64,
    },
    /// What each block of a group is for.
    BlockMap {
        /// The group.
        group: u32,
    },
    /// How full groups are.
    Shares {
        /// The first group.
        first: u32,
        /// How many, at most [`SHARES_MAX`].
        count: u32,
    },
    /// The journal.
    Journal,
    /// The orphans.
    Orphans,
    /// Go on reading through the whole disk, for some milliseconds.
    ReadOn,
    /// Where a path or a number leads.
    Find {
        /// What a person typed.
        query: String,
    },
    /// Set up a run over the open image.
    Prepare {
        /// What to run.
        scenario: Scenario,
        /// In which time.
        clock: Clock,
        /// Seconds since 1970 that the run takes as "now" for the timestamps that it writes.
        started_at: i64,
    },
    /// What has happened since the last time. In virtual time this is also what makes time go on.
    Poll {
        /// The most events to return.
        events_max: u32,
    },
    /// Hold every CPU at its next step.
    Pause,
    /// Let them go on.
    Resume,
    /// Let one paused CPU take one step.
    Step {
        /// Which.
        cpu: u16,
    },
    /// Change how much slower than life the run goes.
    Dilation {
        /// Real time over modelled time.
        factor: u64,
    },
    /// The blocks that the run has changed. In a run that was cut off, those of its last commit.
    Changes,
    /// Tell what these blocks change of the open image, field by field.
    Describe(ChangedBlocks),
    /// End the run: no new operation, at most a second to finish those under way.
    Stop,
}

/// Which part of a file is opened, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The partition of a disk; none for the first with ext2, ext3 or ext4, or where there are none.
    pub partition: Option<u32>,
    /// As the journal left it, or as it would be after a replay.
    pub state: ImageState,
}

/// How an image with changes in its journal is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageState {
    /// As it lies on the disk.
    #[default]
    OnDisk,
    /// As it would be after replaying the journal. Nothing is written.
    Replayed,
}

/// In which time a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// Discrete events in one thread; exactly repeatable.
    Virtual,
    /// Real workers, stretched by this factor.
    SlowMotion {
        /// Real time over modelled time.
        dilation: u64,
    },
    /// Real workers, as fast as they can.
    FlatOut,
}

/// The most groups in one reply.
pub const GROUPS_MAX: u32 = 4096;
/// The most groups whose fullness is in one reply.
pub const SHARES_MAX: u32 = 65_536;
/// The most bytes of a file in one reply.
pub const CONTENT_MAX: u64 = 64 << 20;
/// The most table blocks in one reply.
pub const TABLE_BLOCKS_MAX: u32 = 4096;

/// What an engine answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request's.
    pub id: u32,
    /// The answer.
    pub body: Answer,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// To `Open`.
    Opened(Box<Overview>),
    /// To `Groups`.
    Groups(Vec<GroupRow>),
    /// To `Table`.
    Table(TableWindow),
    /// To `Inode`.
    Inode(Box<InodeCard>),
    /// To `Details`.
    Details(Box<InodeDetails>),
    /// To `Directory`.
    Directory(DirectoryPage),
    /// To `Content`.
    Content(Content),
    /// To `Whole`.
    Whole {
        /// The inode.
        number: u32,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// To `Block`.
    Block(Box<BlockCard>),
    /// To `BlockMap`.
    BlockMap(BlockMap),
    /// To `Shares`: the first group, and 0 for empty to 255 for full for each.
    Shares(u32, Vec<u8>),
    /// To `Journal`.
    Journal(Box<JournalCard>),
    /// To `Orphans`.
    Orphans(OrphansCard),
    /// To `ReadOn`.
    Reading(Box<ReadingState>),
    /// To `Find`: where it leads, or a sentence that says that it leads nowhere.
    Found(Result<Link, String>),
    /// To `Prepare`: the stage is set; in a live run the CPU workers may now start.
    Prepared(Box<Stage>),
    /// To `Poll`, `Pause`, `Resume`, `Step`, `Dilation`, `Stop`.
    Progress(Box<Progress>),
    /// To `Changes`.
    Changes(ChangedBlocks),
    /// To `Describe`.
    Described(Changes),
    /// The question could not be answered; the engine goes on.
    Failed(Trouble),
}

/// What has happened in a run since the last time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Numbered events, [`trace::RECORD_BYTES`](../trace/constant.RECORD_BYTES.html) bytes each, in order.
    pub records: Vec<u8>,
    /// Totals and states right now.
    pub status: Status,
}

/// Why a question could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The file is not an ext4 image; what it looks like instead, as a noun phrase ("a PNG picture").
    NotExt4 {
        /// The noun phrase.
        looks_like: String,
    },
    /// It is one, but cannot be used; a sentence with field and value.
    Unusable {
        /// The sentence.
        why: String,
    },
    /// The browser could not read the file.
    Unreadable {
        /// The sentence.
        why: String,
    },
    /// The number asked for does not exist here.
    OutOfRange,
    /// No image is open, or no run is set up.
    NothingThere,
    /// The run cannot be set up on this image; a sentence that says why.
    CannotRun {
        /// The sentence.
        why: String,
    },
    /// The message could not be understood: page and engine are of different builds.
    Garbled,
}

/// A message in its form for the way.
pub fn to_bytes<M: Serialize>(message: &M) -> Vec<u8> {
    postcard::to_allocvec(message)
        .expect("messages hold no unsized sequences or maps, the only things postcard refuses")
}

/// The message in `bytes`; `None` when it is not one.
pub fn from_bytes<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way_and_garbage_is_refused() {
        let ask = Ask::Prepare {
            scenario: Scenario::default(),
            clock: Clock::SlowMotion { dilation: 9 },
            started_at: -1,
        };
        let request = Request { id: 7, body: ask };
        assert_eq!(from_bytes::<Request>(&to_bytes(&request)), Some(request));
        let reply = Reply {
            id: 7,
            body: Answer::Failed(Trouble::NotExt4 {
                looks_like: "a PNG picture".to_owned(),
            }),
        };
        assert_eq!(from_bytes::<Reply>(&to_bytes(&reply)), Some(reply));
        assert_eq!(from_bytes::<Request>(&[0xff; 3]), None);
    }
}
