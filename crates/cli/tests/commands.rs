//! The program on images that mke2fs and debugfs make, held against what these tools say.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output();
    let output = output.unwrap_or_else(|error| panic!("{name} (package e2fsprogs) does not start: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Image {
    folder: TempDir,
    path: PathBuf,
}

impl Image {
    fn make(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (path, tree) = (folder.path().join("image"), folder.path().join("tree"));
        fs::create_dir_all(tree.join("docs/deep")).expect("folders can be made");
        fs::write(tree.join("hello"), "hello\n").expect("files can be written");
        fs::write(tree.join("docs/big"), contents()).expect("files can be written");
        std::os::unix::fs::symlink("../hello", tree.join("docs/link")).expect("links can be made");
        let mut arguments = vec!["-q", "-F", "-t", "ext4", "-d", plain(&tree)];
        arguments.extend(options);
        arguments.extend([plain(&path), "16M"]);
        tool("mke2fs", &arguments);
        Self { folder, path }
    }

    fn debugfs(&self, request: &str) -> String {
        tool("debugfs", &["-R", request, plain(&self.path)])
    }

    fn change(&self, requests: &[&str]) {
        for request in requests {
            tool("debugfs", &["-w", "-R", request, plain(&self.path)]);
        }
    }

    fn ask(&self, command: &str, rest: &[&str]) -> Output {
        ask(&[&[command, plain(&self.path)], rest].concat())
    }

    fn json(&self, command: &str, rest: &[&str]) -> Value {
        let output = self.ask(command, &[rest, &["--json"]].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{command} {rest:?}: {error}: {output:?}"))
    }
}

fn contents() -> Vec<u8> {
    (0u32..300_000)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("the path is plain")
}

fn ask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ext4lab"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn info_says_what_dumpe2fs_says() {
    for options in [
        ["-b", "1024"],
        ["-b", "4096"],
        ["-O", "^has_journal,^metadata_csum"],
    ] {
        let image = Image::make(&options);
        let head = tool("dumpe2fs", &["-h", plain(&image.path)]);
        let value = |name: &str| {
            let line = head
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim).unwrap_or_default().to_owned()
        };
        let info = image.json("info", &[]);
        for (key, name) in [
            ("blocks", "Block count"),
            ("free_blocks", "Free blocks"),
            ("inodes", "Inode count"),
            ("free_inodes", "Free inodes"),
            ("block_bytes", "Block size"),
            ("inode_bytes", "Inode size"),
            ("blocks_per_group", "Blocks per group"),
        ] {
            assert_eq!(info[key].to_string(), value(name), "{name}");
        }
        assert_eq!(info["uuid"], value("Filesystem UUID").as_str());
        let features: Vec<_> = info["features"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(features.join(" "), value("Filesystem features"));
    }
}

#[test]
fn files_are_written_byte_by_byte_and_found_by_path_and_number() {
    let image = Image::make(&["-b", "1024"]);
    assert_eq!(image.ask("cat", &["/docs/big"]).stdout, contents());
    assert_eq!(image.ask("cat", &["/docs/link"]).stdout, b"hello\n");
    let stat = image.json("stat", &["/docs/big"]);
    let by_debugfs = image.debugfs("stat /docs/big");
    let number = stat["inode"].to_string();
    assert!(
        by_debugfs.starts_with(&format!("Inode: {number} ")),
        "{by_debugfs}"
    );
    assert!(by_debugfs.contains(&format!("Size: {}", stat["size"])));
    assert_eq!(image.json("stat", &[&format!("<{number}>")]), stat);
    let list = String::from_utf8(image.ask("ls", &["/docs"]).stdout).expect("the names are plain");
    for name in ["big", "deep", "link"] {
        assert!(list.contains(name), "{list}");
    }
}

#[test]
fn a_block_leads_to_its_owner_as_icheck_and_ncheck_say() {
    let image = Image::make(&["-b", "1024"]);
    let map = image.json("blocks", &["/docs/big"]);
    let block = map["runs"][0]["block"].to_string();
    let owner = image.json("blocks", &["--owner", &block]);
    assert_eq!(owner["owner"], "data");
    assert_eq!(owner["path"], "/docs/big");
    let icheck = image.debugfs(&format!("icheck {block}"));
    assert!(icheck.contains(&owner["inode"].to_string()), "{icheck}");
    assert_eq!(image.json("blocks", &["--owner", "1"])["owner"], "superblock");
}

#[test]
fn the_exit_status_tells_fine_from_damaged_from_not_to_be_opened() {
    let image = Image::make(&["-b", "1024"]);
    assert_eq!(status(&image.ask("scan", &[])), Some(0));
    assert_eq!(status(&image.ask("cat", &["/no/such"])), Some(1));
    assert_eq!(status(&image.ask("info", &["--partition", "3"])), Some(2));
    image.change(&["sif /docs/big links_count 7"]);
    let scan = image.ask("scan", &[]);
    assert_eq!(status(&scan), Some(1));
    let text = String::from_utf8_lossy(&scan.stdout).into_owned();
    assert!(text.contains("7 links, but 1 names"), "{text}");
    let note = image.folder.path().join("note");
    fs::write(&note, "Dear diary,\n".repeat(500)).expect("files can be written");
    let refused = ask(&["info", plain(&note)]);
    assert_eq!(status(&refused), Some(2));
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.lines().count() == 1 && why.contains("a text file"), "{why}");
    assert_eq!(status(&ask(&["info", "/no/such/image"])), Some(2));
}

#[test]
fn a_copy_of_the_superblock_serves_where_the_primary_is_lost() {
    let image = Image::make(&["-b", "1024"]);
    let mut bytes = fs::read(&image.path).expect("it is there");
    let good = image.json("info", &[]);
    bytes[1024..2048].fill(0);
    fs::write(&image.path, bytes).expect("files can be written");
    let info = image.json("info", &[]);
    assert_eq!(
        (&info["uuid"], &info["superblock_at"]),
        (&good["uuid"], &(8193 * 1024).into())
    );
    assert_eq!(
        image.json("info", &["--superblock", "8193"])["uuid"],
        good["uuid"]
    );
}

#[test]
fn a_dirty_journal_is_shown_and_replayed_in_the_mind_only() {
    let image = Image::make(&["-b", "1024", "-J", "size=1"]);
    let block = image.debugfs("bmap /hello 0").trim().to_owned();
    let news = image.folder.path().join("news");
    fs::write(&news, "news\n".repeat(300)).expect("files can be written");
    let script = image.folder.path().join("script");
    let requests = format!("jo\njw -b {block} {}\njc\n", plain(&news));
    fs::write(&script, requests).expect("files can be written");
    tool("debugfs", &["-w", "-f", plain(&script), plain(&image.path)]);
    let before = fs::read(&image.path).expect("it is there");
    let journal = image.json("journal", &[]);
    assert_eq!(journal["differing"][0].to_string(), block);
    assert_eq!(image.ask("cat", &["/hello"]).stdout, b"hello\n");
    assert_eq!(image.ask("cat", &["/hello", "--replayed"]).stdout, b"news\nn");
    assert_eq!(status(&image.ask("scan", &["--replayed"])), Some(0));
    assert!(fs::read(&image.path).expect("it is there") == before);
}

/// Every key of a value, however deep.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                // The fields of the superblock are the kernel's.
                if !key.starts_with("s_") {
                    found.insert(key.clone());
                }
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_every_answer_is_in_the_documentation() {
    let documentation = include_str!("../../../docs/json.md");
    let image = Image::make(&["-b", "1024"]);
    image.change(&[
        "ea_set /hello user.comment well-kept",
        "sif /docs/big links_count 7",
    ]);
    let mut found = BTreeSet::new();
    for (command, rest) in [
        ("info", ["--groups"].as_slice()),
        ("ls", &["/docs"]),
        ("stat", &["/hello"]),
        ("cat", &["/hello"]),
        ("tree", &["/"]),
        ("blocks", &["/docs/big"]),
        ("blocks", &["--owner", "9"]),
        ("xattr", &["/hello"]),
        ("journal", &[]),
        ("orphans", &[]),
        ("scan", &[]),
        ("run", &["--ops", "3"]),
    ] {
        keys(&image.json(command, rest), &mut found);
    }
    let profiles = serde_json::from_slice(&ask(&["profiles", "--json"]).stdout).expect("it is JSON");
    keys(&profiles, &mut found);
    let missing: Vec<_> = found
        .iter()
        .filter(|key| !documentation.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "docs/json.md does not name {missing:?}");
    assert!(found.len() > 80);
}

/// A run leaves the image as it is, says the same each time, and its trace opens elsewhere.
#[test]
fn a_run_is_repeatable_and_writes_nothing_but_its_trace() {
    let image = Image::make(&["-b", "4096"]);
    let before = fs::read(&image.path).expect("it is there");
    let trace = image.folder.path().join("trace.json");
    let arguments = [
        "--strategy",
        "spin",
        "--cpus",
        "4",
        "--ops",
        "20",
        "--trace",
        plain(&trace),
    ];
    let first = image.json("run", &arguments);
    assert_eq!(first, image.json("run", &arguments));
    assert_eq!(first["operations"], 80);
    let other = image.json(
        "run",
        &["--strategy", "spin", "--cpus", "4", "--ops", "20", "--seed", "8"],
    );
    assert_ne!(first["fingerprint"], other["fingerprint"]);
    assert_eq!(fs::read(&image.path).expect("it is there"), before);
    let trace: Value =
        serde_json::from_slice(&fs::read(&trace).expect("it was written")).expect("it is JSON");
    assert!(
        trace["traceEvents"]
            .as_array()
            .is_some_and(|events| events.len() > 1_000)
    );
    // The changed image is another file, in which only the names of the jobs' files are missing.
    let out = image.folder.path().join("out.img");
    image.json("run", &["--cpus", "4", "--ops", "20", "--out", plain(&out)]);
    let checked = tool("e2fsck", &["-fn", plain(&out)]);
    for line in checked.lines().filter(|line| !line.is_empty()) {
        let known = [
            "Pass ",
            "Unattached ",
            "Connect to",
            "ref count is",
            "UNEXPECTED",
            "files (",
            "WARNING",
        ];
        assert!(known.iter().any(|known| line.contains(known)), "{line}");
    }
    assert!(
        !image.ask("run", &["--out", plain(&out)]).status.success(),
        "it writes over a file"
    );
    // Flat out on this computer's threads the same work is done.
    let measured = image.json("run", &["--cpus", "2", "--ops", "50", "--clock", "flat-out"]);
    assert_eq!(measured["operations"], 100);
    assert!(measured["fingerprint"].is_null());
}

#[test]
fn a_bad_value_is_refused_with_what_is_allowed() {
    let image = Image::make(&["-b", "4096"]);
    for (arguments, said) in [
        (["--strategy", "mutex"], "trylock-break"),
        (["--profile", "abacus"], "xeon-e5-2680"),
        (["--cpus", "65"], "1..=64"),
        (["--time", "3 weeks"], "20ms"),
    ] {
        let output = image.ask("run", &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_trouble() {
    let image = Image::make(&["-b", "1024"]);
    let shell = format!(
        "{} cat {} /docs/big | head -c 10 | wc -c",
        env!("CARGO_BIN_EXE_ext4lab"),
        plain(&image.path)
    );
    let output = Command::new("sh")
        .args(["-c", &shell])
        .output()
        .expect("sh starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "10");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn mkfs_makes_what_e2fsck_finds_clean_and_never_overwrites() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("new.img");
    let path = plain(&path);
    let made = ask(&[
        "mkfs",
        path,
        "80M",
        "--features",
        "orphan_file,^resize_inode",
        "--json",
    ]);
    assert_eq!(status(&made), Some(0), "{made:?}");
    let made: Value = serde_json::from_slice(&made.stdout).expect("it is JSON");
    assert_eq!(made["blocks"], 20480);
    let features: BTreeSet<&str> = made["features"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(features.contains("orphan_file") && !features.contains("resize_inode"));
    assert!(!tool("e2fsck", &["-fn", path]).contains('?'));
    let info = ask(&["info", path]);
    assert_eq!(status(&info), Some(0));
    let again = ask(&["mkfs", path, "80M"]);
    assert_eq!(status(&again), Some(2));
    let odd = ask(&[
        "mkfs",
        plain(&folder.path().join("odd")),
        "80M",
        "--features",
        "bigalloc",
    ]);
    assert_eq!(status(&odd), Some(2));
    assert!(
        String::from_utf8_lossy(&odd.stderr).contains("bigalloc"),
        "{odd:?}"
    );
}

#[test]
fn compare_orders_the_designs_as_the_mail_of_2020_does() {
    let image = Image::make(&[
        "-b",
        "4096",
        "-g",
        "512",
        "-N",
        "2048",
        "-O",
        "^has_journal,^resize_inode",
    ]);
    let answer = image.json(
        "compare",
        &[
            "--strategies",
            "spin,rcu",
            "--cpus",
            "1,16",
            "--seeds",
            "2",
            "--ops",
            "20",
        ],
    );
    let rate = |strategy: &str, cpus: u64| {
        let rows = answer["rows"].as_array().expect("a list");
        let row = rows
            .iter()
            .find(|row| row["strategy"] == strategy && row["cpus"] == cpus);
        row.expect("it was asked for")["operations_per_second"]["median"]
            .as_f64()
            .expect("a number")
    };
    assert!(
        rate("spin", 16) < rate("spin", 1),
        "sixteen CPUs are slower than one"
    );
    assert!(
        rate("rcu", 16) > 10.0 * rate("rcu", 1),
        "without the lock they are not"
    );
    let csv = image.ask(
        "compare",
        &[
            "--strategies",
            "rcu",
            "--cpus",
            "2",
            "--seeds",
            "2",
            "--ops",
            "5",
            "--csv",
        ],
    );
    let csv = String::from_utf8_lossy(&csv.stdout).into_owned();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    assert_eq!(csv.lines().map(|line| line.split(',').count()).max(), Some(17));
    let odd = image.ask("compare", &["--strategies", "spin,fast"]);
    assert_eq!(status(&odd), Some(2));
}

#[test]
fn reproduce_names_the_tables_that_there_are() {
    let odd = ask(&["reproduce", "fast"]);
    assert_eq!(status(&odd), Some(2));
    let said = String::from_utf8_lossy(&odd.stderr).into_owned();
    assert!(said.contains("ftruncate, lazyinit, cyclictest"), "{said}");
    let table = ask(&["reproduce", "ftruncate", "--json"]);
    let table: Value = serde_json::from_slice(&table.stdout).expect("it is JSON");
    let cells = table["tables"][0]["cells"].as_array().expect("a list");
    let cell = |name: &str| {
        cells
            .iter()
            .find(|cell| cell["cell"] == name)
            .expect("it is in the table")
    };
    for name in ["spin", "trylock-break"] {
        let error = cell(name)["error_percent"].as_f64().expect("it was published");
        assert!(error.abs() <= 20.0, "{name}: {error} %");
    }
    assert!(cell("rcu")["simulated"].as_f64() >= cell("trylock-break")["simulated"].as_f64());
    assert!(
        table["tables"][0]["fitted"]
            .as_array()
            .is_some_and(|fitted| fitted.len() == 2)
    );
}
