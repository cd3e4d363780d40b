//! Whatever the bytes: peel, open and check them, as they lie there and as after a replay.

#![no_main]

use std::sync::Arc;

use ext4::{
    Filesystem, Replayed, Scan,
    container::{Image, peel},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(peeled) = peel(Arc::new(bytes.to_vec())) else {
        return;
    };
    if let Ok(image) = peeled.choose(None) {
        check(image);
    }
});

fn check(image: Image) {
    let Ok(opened) = Filesystem::open(image.clone()) else {
        return;
    };
    Scan::run(&opened.filesystem, opened.findings);
    if let Ok(journal) = opened.filesystem.journal()
        && let Ok(opened) = Filesystem::open(Replayed::new(image, &journal))
    {
        Scan::run(&opened.filesystem, opened.findings);
    }
}
