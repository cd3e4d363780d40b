//! The explorer's half of the page's state: a reducer from what a person does and what the engine answers to what is
//! asked of it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Answer, Ask, SHARES_MAX};
use view::explore::{
    BlockCard, BlockMap, Content, DirectoryPage, EntryKind, EntryRow, Finding, GroupRow, InodeCard,
    InodeDetails, JournalCard, Link, OrphansCard, Overview, ReadPhase, ReadingState, Sort, TableWindow,
};

/// Groups on one page of the list.
pub(crate) const GROUPS_A_PAGE: u32 = 64;
/// Slots of an inode table on one page.
const SLOTS_A_PAGE: u32 = 8192;
/// Bytes of a content on one page.
pub(crate) const CONTENT_A_PAGE: u64 = 64 << 10;
/// The largest picture that is shown.
pub(crate) const PICTURE_MAX: u64 = 16 << 20;
/// Places that Back remembers.
const BACK_MAX: usize = 200;
/// The root directory.
const ROOT: u32 = 2;

/// What the middle of the explorer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Disk,
    File,
    Tables,
    Journal,
    Orphans,
    Superblock,
    Findings,
}

impl View {
    pub(crate) const ALL: [Self; 7] = [
        Self::Disk,
        Self::File,
        Self::Tables,
        Self::Journal,
        Self::Orphans,
        Self::Superblock,
        Self::Findings,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "Disk",
            Self::File => "File",
            Self::Tables => "Inode tables",
            Self::Journal => "Journal",
            Self::Orphans => "Orphans",
            Self::Superblock => "Superblock",
            Self::Findings => "Findings",
        }
    }
}

/// How a content is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// As its bytes suggest.
    Fitting,
    Text,
    Hex,
}

/// What a whole content is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Picture,
    Download,
}

/// What a person does in the explorer.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    View(View),
    /// Goes to an inode or a block.
    At(Link),
    /// The same, in the view that shows what it holds.
    Into(Link),
    /// Goes to the block that holds this byte of the image.
    Byte(u64),
    Back,
    Group(u32),
    GroupsPage(u32),
    TablePage(u32),
    /// The pointer is over an inode's slot.
    Over(u32),
    /// Moves the cursor in the inode table by so many slots, as far as it goes.
    Move(i64),
    /// Moves the cursor in the map of a group by so many blocks.
    MoveBlock(i64),
    /// Moves the cursor in the map of the disk by so many groups.
    MoveGroup(i64),
    SharesPage(u32),
    /// Opens or closes a directory of the tree.
    Toggle(Vec<u32>),
    More(Vec<u32>),
    TreeRow(usize),
    TreeScroll(i32),
    Query(String),
    Find,
    ContentAt(u64),
    ListingAt(u32),
    Show(Show),
    Whole(Wanted),
    Lit(Option<usize>),
    HexPage(usize),
    Read(bool),
}

/// A directory of the tree, as far as it has been read.
#[derive(Default)]
pub(crate) struct Branch {
    pub(crate) entries: Vec<EntryRow>,
    pub(crate) total: u32,
    pub(crate) damaged: bool,
}

/// The explorer's state.
pub(crate) struct Explorer {
    pub(crate) view: View,
    pub(crate) selected: Option<Link>,
    back: Vec<Link>,
    pub(crate) groups: Vec<GroupRow>,
    pub(crate) groups_first: u32,
    pub(crate) group: u32,
    pub(crate) table: Option<TableWindow>,
    pub(crate) card: Option<InodeCard>,
    pub(crate) details: Option<InodeDetails>,
    pub(crate) block: Option<BlockCard>,
    pub(crate) map: Option<BlockMap>,
    pub(crate) shares_first: u32,
    pub(crate) shares: Vec<u8>,
    /// Directories by inode, and those that are open by the way to them.
    pub(crate) branches: BTreeMap<u32, Branch>,
    pub(crate) open: BTreeSet<Vec<u32>>,
    pub(crate) tree_row: usize,
    pub(crate) tree_scroll: i32,
    pub(crate) content: Option<Content>,
    pub(crate) listing: Option<DirectoryPage>,
    pub(crate) show: Show,
    pub(crate) wanted: Option<Wanted>,
    /// The object URL of the picture that is shown.
    pub(crate) picture: Option<String>,
    pub(crate) journal: Option<JournalCard>,
    pub(crate) orphans: Option<OrphansCard>,
    pub(crate) query: String,
    /// Why the last search led nowhere.
    pub(crate) not_found: Option<String>,
    pub(crate) lit: Option<usize>,
    pub(crate) hex_page: usize,
    pub(crate) reading: bool,
    pub(crate) read: Option<ReadingState>,
    pub(crate) findings: Vec<Finding>,
    /// Why the last question could not be answered.
    pub(crate) trouble: Option<String>,
}

/// A row of the tree that can be seen.
pub(crate) struct TreeRow<'e> {
    /// Inodes from the root's entry down to this one; for [`TreeRow::entry`] `None`, those of the directory.
    pub(crate) way: Vec<u32>,
    /// `None`: there are more entries than have been read.
    pub(crate) entry: Option<&'e EntryRow>,
    pub(crate) open: bool,
    pub(crate) place: usize,
    pub(crate) of: usize,
}

impl Default for Explorer {
    fn default() -> Self {
        Self {
            view: View::Disk,
            selected: None,
            back: Vec::new(),
            groups: Vec::new(),
            groups_first: 0,
            group: 0,
            table: None,
            card: None,
            details: None,
            block: None,
            map: None,
            shares_first: 0,
            shares: Vec::new(),
            branches: BTreeMap::new(),
            open: BTreeSet::new(),
            tree_row: 0,
            tree_scroll: 0,
            content: None,
            listing: None,
            show: Show::Fitting,
            wanted: None,
            picture: None,
            journal: None,
            orphans: None,
            query: String::new(),
            not_found: None,
            lit: None,
            hex_page: 0,
            reading: true,
            read: None,
            findings: Vec::new(),
            trouble: None,
        }
    }
}

impl Explorer {
    /// What to ask once an image is open.
    pub(crate) fn opened(&mut self, overview: &Overview) -> Vec<Ask> {
        *self = Self {
            view: self.view,
            ..Self::default()
        };
        let mut asks = vec![
            Ask::Groups {
                first: 0,
                count: GROUPS_A_PAGE,
            },
            Ask::Shares {
                first: 0,
                count: SHARES_MAX,
            },
            Ask::Directory {
                number: ROOT,
                first: 0,
            },
            Ask::Journal,
            Ask::Orphans,
        ];
        asks.extend(self.show_group(overview, 0));
        asks.extend(self.select(Link::Inode(ROOT)));
        asks.push(Ask::ReadOn);
        asks
    }

    /// What a person did; gives what is to be asked.
    pub(crate) fn look(&mut self, overview: &Overview, look: Look) -> Vec<Ask> {
        match look {
            Look::View(view) => {
                self.view = view;
                self.content_asks()
            }
            Look::At(link) => self.go(overview, link),
            Look::Into(link) => {
                self.view = match link {
                    Link::Inode(_) => View::File,
                    Link::Block(_) => View::Disk,
                };
                self.go(overview, link)
            }
            Look::Byte(offset) => {
                let block = offset / u64::from(overview.block_bytes.max(1));
                self.go(
                    overview,
                    Link::Block(block.min(overview.blocks.saturating_sub(1))),
                )
            }
            Look::Back => {
                let Some(link) = self.back.pop() else {
                    return Vec::new();
                };
                let mut asks = self.follow(overview, link);
                asks.extend(self.select(link));
                asks
            }
            Look::Group(group) => self.show_group(overview, group),
            Look::GroupsPage(first) => {
                self.groups_first = first;
                vec![Ask::Groups {
                    first,
                    count: GROUPS_A_PAGE,
                }]
            }
            Look::TablePage(first) => self.ask_table(overview, first),
            Look::Over(number) => self.hover(number),
            Look::Move(by) => self.step_inode(by),
            Look::MoveBlock(by) => self.step_block(by),
            Look::MoveGroup(by) => {
                let last = i64::from(overview.groups.saturating_sub(1));
                let to = i64::from(self.group).saturating_add(by).clamp(0, last);
                self.show_group(overview, to as u32)
            }
            Look::SharesPage(first) => {
                self.shares_first = first;
                vec![Ask::Shares {
                    first,
                    count: SHARES_MAX,
                }]
            }
            Look::Toggle(way) => self.toggle(way),
            Look::More(way) => {
                let number = way.last().copied().unwrap_or(ROOT);
                let first = self
                    .branches
                    .get(&number)
                    .map_or(0, |branch| branch.entries.len() as u32);
                vec![Ask::Directory { number, first }]
            }
            Look::TreeRow(row) => {
                self.tree_row = row;
                Vec::new()
            }
            Look::TreeScroll(to) => {
                self.tree_scroll = to;
                Vec::new()
            }
            Look::Query(query) => {
                (self.query, self.not_found) = (query, None);
                Vec::new()
            }
            Look::Find if self.query.trim().is_empty() => Vec::new(),
            Look::Find => vec![Ask::Find {
                query: self.query.clone(),
            }],
            Look::ContentAt(offset) => self.with_inode(|number| Ask::Content { number, offset }),
            Look::ListingAt(first) => self.with_inode(|number| Ask::Directory { number, first }),
            Look::Show(show) => {
                self.show = show;
                Vec::new()
            }
            Look::Whole(wanted) => {
                self.wanted = Some(wanted);
                self.with_inode(|number| Ask::Whole { number })
            }
            Look::Lit(lit) => {
                self.lit = lit;
                Vec::new()
            }
            Look::HexPage(page) => {
                (self.hex_page, self.lit) = (page, None);
                Vec::new()
            }
            Look::Read(on) => {
                self.reading = on;
                if on { vec![Ask::ReadOn] } else { Vec::new() }
            }
        }
    }

    fn with_inode(&self, ask: impl FnOnce(u32) -> Ask) -> Vec<Ask> {
        match self.selected {
            Some(Link::Inode(number)) => vec![ask(number)],
            _ => Vec::new(),
        }
    }

    /// What the engine answered; gives what is to be asked next.
    pub(crate) fn answered(&mut self, overview: &Overview, answer: Answer) -> Vec<Ask> {
        let is_selected = |link: Link| self.selected == Some(link);
        match answer {
            Answer::Groups(rows) => self.groups = rows,
            Answer::Table(window) => self.table = Some(window),
            Answer::Inode(card) if is_selected(Link::Inode(card.number)) => self.card = Some(*card),
            Answer::Details(details) if is_selected(Link::Inode(details.number)) => {
                self.details = Some(*details);
                return self.content_asks();
            }
            Answer::Block(card) if is_selected(Link::Block(card.number)) => self.block = Some(*card),
            Answer::BlockMap(map) if map.group == self.group => self.map = Some(map),
            Answer::Shares(first, shares) if first == self.shares_first => self.shares = shares,
            Answer::Directory(page) => self.directory(page),
            Answer::Content(content) if is_selected(Link::Inode(content.number)) => {
                let picture = content.sort == Sort::Picture && content.size <= PICTURE_MAX;
                let shown = self.picture.is_some();
                self.content = Some(content);
                if picture && !shown {
                    return self.look(overview, Look::Whole(Wanted::Picture));
                }
            }
            Answer::Journal(card) => self.journal = Some(*card),
            Answer::Orphans(card) => self.orphans = Some(card),
            Answer::Reading(state) => return self.read_on(*state),
            Answer::Found(Ok(link)) => return self.look(overview, Look::Into(link)),
            Answer::Found(Err(why)) => self.not_found = Some(why),
            _ => {}
        }
        Vec::new()
    }

    fn directory(&mut self, page: DirectoryPage) {
        let branch = self.branches.entry(page.number).or_default();
        branch.total = page.total;
        branch.damaged = !page.findings.is_empty();
        // Pages come in order; one that is here already is not added again.
        if page.first as usize == branch.entries.len() {
            branch.entries.extend(page.entries.iter().cloned());
        }
        if self.selected == Some(Link::Inode(page.number)) {
            self.listing = Some(page);
        }
    }

    fn read_on(&mut self, state: ReadingState) -> Vec<Ask> {
        self.findings.extend(state.findings.iter().cloned());
        let done = state.phase == ReadPhase::Done;
        let news = done
            && self
                .read
                .as_ref()
                .is_none_or(|read| read.phase != ReadPhase::Done);
        self.read = Some(state);
        if !done {
            return if self.reading {
                vec![Ask::ReadOn]
            } else {
                Vec::new()
            };
        }
        self.reading = false;
        if !news {
            return Vec::new();
        }
        // Now owners and paths are known.
        let mut asks = vec![Ask::BlockMap { group: self.group }];
        match self.selected {
            Some(Link::Inode(number)) => asks.push(Ask::Details { number }),
            Some(Link::Block(number)) => asks.push(Ask::Block { number }),
            None => {}
        }
        asks
    }

    /// A question could not be answered: where it was about what is selected, that is said.
    pub(crate) fn failed(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// The name to keep the selected file under.
    pub(crate) fn file_name(&self) -> String {
        let path = self.details.as_ref().and_then(|details| details.path.as_deref());
        let name = path.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
        match (name, self.selected) {
            (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
            (None, Some(Link::Inode(number))) => format!("inode-{number}"),
            _ => "file".to_owned(),
        }
    }

    /// Goes somewhere, so that Back leads here.
    fn go(&mut self, overview: &Overview, link: Link) -> Vec<Ask> {
        if let Some(here) = self.selected.filter(|here| *here != link) {
            self.back.push(here);
            if self.back.len() > BACK_MAX {
                self.back.remove(0);
            }
        }
        let mut asks = self.follow(overview, link);
        asks.extend(self.select(link));
        asks
    }

    pub(crate) fn can_go_back(&self) -> bool {
        !self.back.is_empty()
    }

    /// Shows the group, and the page of its table, that something lies in.
    fn follow(&mut self, overview: &Overview, link: Link) -> Vec<Ask> {
        match link {
            Link::Inode(number) => {
                let per_group = overview.inodes_per_group.max(1);
                let group = number.saturating_sub(1) / per_group;
                let index = number.saturating_sub(1) % per_group;
                let page = self.blocks_a_page(overview) * overview.slots_per_block.max(1);
                let first = index / page.max(1) * self.blocks_a_page(overview);
                let shown = self
                    .table
                    .as_ref()
                    .is_some_and(|table| table.group == group && table.first == first);
                let mut asks = Vec::new();
                if group != self.group {
                    asks.extend(self.show_group(overview, group));
                }
                if !shown {
                    asks.extend(self.ask_table(overview, first));
                }
                asks
            }
            Link::Block(number) => {
                let within = number.saturating_sub(overview.first_data_block.into());
                let group = (within / u64::from(overview.blocks_per_group.max(1))) as u32;
                if group == self.group && self.map.is_some() {
                    return Vec::new();
                }
                self.show_group(overview, group.min(overview.groups.saturating_sub(1)))
            }
        }
    }

    fn select(&mut self, link: Link) -> Vec<Ask> {
        self.trouble = None;
        if self.selected != Some(link) {
            (self.details, self.content, self.listing, self.picture) = (None, None, None, None);
            (self.show, self.lit, self.hex_page, self.wanted) = (Show::Fitting, None, 0, None);
        }
        self.selected = Some(link);
        match link {
            Link::Inode(number) => {
                self.block = None;
                vec![Ask::Inode { number }, Ask::Details { number }]
            }
            Link::Block(number) => {
                self.card = None;
                vec![Ask::Block { number }]
            }
        }
    }

    fn hover(&mut self, number: u32) -> Vec<Ask> {
        if self.selected == Some(Link::Inode(number)) {
            return Vec::new();
        }
        // The card alone is quick; what hangs on the inode waits for a click.
        let mut asks = self.select(Link::Inode(number));
        asks.retain(|ask| matches!(ask, Ask::Inode { .. }));
        asks
    }

    fn step_inode(&mut self, by: i64) -> Vec<Ask> {
        let Some(window) = &self.table else {
            return Vec::new();
        };
        let first = i64::from(window.first_inode);
        let last = first + window.slots.len() as i64 - 1;
        let here = match self.selected {
            Some(Link::Inode(number)) => i64::from(number),
            _ => first,
        };
        let to = here.saturating_add(by).min(last).max(first);
        self.select(Link::Inode(to as u32))
    }

    fn step_block(&mut self, by: i64) -> Vec<Ask> {
        let Some(map) = &self.map else {
            return Vec::new();
        };
        let first = map.first as i64;
        let last = first + map.kinds.len() as i64 - 1;
        let here = match self.selected {
            Some(Link::Block(number)) => number as i64,
            _ => first,
        };
        let to = here.saturating_add(by).min(last).max(first);
        self.select(Link::Block(to as u64))
    }

    /// What the view of a file needs that is not there yet.
    fn content_asks(&self) -> Vec<Ask> {
        let (Some(details), View::File) = (&self.details, self.view) else {
            return Vec::new();
        };
        let number = details.number;
        match details.kind {
            EntryKind::Directory if self.listing.is_none() => vec![Ask::Directory { number, first: 0 }],
            EntryKind::File | EntryKind::Symlink | EntryKind::Unknown if self.content.is_none() => {
                vec![Ask::Content { number, offset: 0 }]
            }
            _ => Vec::new(),
        }
    }

    fn show_group(&mut self, overview: &Overview, group: u32) -> Vec<Ask> {
        self.group = group;
        (self.map, self.table) = (None, None);
        let mut asks = self.ask_table(overview, 0);
        asks.push(Ask::BlockMap { group });
        let page = group / GROUPS_A_PAGE * GROUPS_A_PAGE;
        if page != self.groups_first {
            asks.extend(self.look(overview, Look::GroupsPage(page)));
        }
        asks
    }

    fn ask_table(&self, overview: &Overview, first: u32) -> Vec<Ask> {
        vec![Ask::Table {
            group: self.group,
            first,
            count: self.blocks_a_page(overview),
        }]
    }

    /// Table blocks on one page of the canvas.
    pub(crate) fn blocks_a_page(&self, overview: &Overview) -> u32 {
        (SLOTS_A_PAGE / overview.slots_per_block.max(1)).max(1)
    }

    fn toggle(&mut self, way: Vec<u32>) -> Vec<Ask> {
        if self.open.remove(&way) {
            return Vec::new();
        }
        let number = way.last().copied().unwrap_or(ROOT);
        self.open.insert(way);
        match self.branches.contains_key(&number) {
            true => Vec::new(),
            false => vec![Ask::Directory { number, first: 0 }],
        }
    }

    /// The rows of the tree, from top to bottom.
    pub(crate) fn tree_rows(&self) -> Vec<TreeRow<'_>> {
        let mut rows = Vec::new();
        self.branch_rows(&[], &mut rows);
        rows
    }

    fn branch_rows<'e>(&'e self, way: &[u32], rows: &mut Vec<TreeRow<'e>>) {
        let number = way.last().copied().unwrap_or(ROOT);
        let Some(branch) = self.branches.get(&number) else {
            return;
        };
        let of = branch.total as usize;
        for (place, entry) in branch.entries.iter().enumerate() {
            let below = [way, &[entry.inode]].concat();
            let open = entry.kind == EntryKind::Directory && !entry.deleted && self.open.contains(&below);
            rows.push(TreeRow {
                way: below.clone(),
                entry: Some(entry),
                open,
                place,
                of,
            });
            if open {
                self.branch_rows(&below, rows);
            }
        }
        if branch.entries.len() < of {
            rows.push(TreeRow {
                way: way.to_vec(),
                entry: None,
                open: false,
                place: branch.entries.len(),
                of,
            });
        }
    }
}
