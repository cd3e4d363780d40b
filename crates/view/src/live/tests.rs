use kernel::Scenario;
use trace::{Event, Kind, Numbered, SkipReason};

use super::*;
use crate::explore::Slot;

/// A stage of two CPUs over one block of four slots; lock 0 guards the hash.
fn stage() -> Stage {
    let slot = StageSlot {
        slot: Slot::File,
        cached: true,
        deferred: false,
        job: None,
    };
    Stage {
        scenario: Scenario {
            cpus: 2,
            ..Scenario::default()
        },
        slots_per_block: 4,
        cached_inodes: 4,
        lock_classes: vec!["inode hash lock".to_owned(), "i_lock".to_owned()],
        class_of_lock: vec![0, 1, 1],
        hash_class: 0,
        blocks: vec![StageBlock {
            group: 0,
            block: 20,
            first_inode: 1,
            slots: vec![slot; 4],
        }],
    }
}

fn after(events: &[(u16, Kind, u32, u64)]) -> LiveView {
    let mut view = LiveView::new(&stage());
    for (number, (cpu, kind, object, argument)) in (0..).zip(events) {
        let event = Event {
            time_ns: number * 10,
            cpu: *cpu,
            kind: *kind,
            object: *object,
            argument: *argument,
        };
        view.apply(Numbered { number, event });
    }
    view
}

#[test]
fn a_cpu_that_waits_stands_in_the_queue_until_it_has_the_lock() {
    let begin = [
        (0, Kind::LockAttempt, 0, 0),
        (0, Kind::LockAcquired, 0, 0),
        (1, Kind::LockAttempt, 0, 0),
        (1, Kind::LockContended, 0, 0),
    ];
    let view = after(&begin);
    assert_eq!(
        (view.locks[&0].holder, view.locks[&0].waiting.as_slice()),
        (Some(0), &[1][..])
    );
    assert_eq!(
        (view.cpus[1].phase, view.cpus[1].waits_for),
        (CpuPhase::Spinning, Some(0))
    );
    assert_eq!(view.cpus[0].holds, [0]);

    let handed = [
        begin.as_slice(),
        &[(0, Kind::LockReleased, 0, 30), (1, Kind::LockAcquired, 0, 20)],
    ]
    .concat();
    let view = after(&handed);
    assert_eq!(
        (view.locks[&0].holder, view.locks[&0].waiting.as_slice()),
        (Some(1), &[][..])
    );
    assert_eq!((view.locks[&0].acquired, view.locks[&0].contended), (2, 1));
    assert_eq!(
        (view.cpus[0].holds.as_slice(), view.cpus[1].waits_for),
        (&[][..], None)
    );
}

#[test]
fn a_neighbour_is_looked_for_and_written_along_and_its_times_are_then_no_longer_deferred() {
    let view = after(&[
        (1, Kind::InodeRead, 3, 0),
        (0, Kind::OperationBegin, 1, 4096),
        (0, Kind::InodeWritten, 1, 20),
        (0, Kind::NeighbourLookup, 3, 1),
    ]);
    assert!(view.slots[&3].deferred);
    assert_eq!((view.cpus[0].inode, view.cpus[0].neighbour), (Some(1), Some(3)));

    let view = after(&[
        (1, Kind::InodeRead, 3, 0),
        (0, Kind::NeighbourLookup, 3, 1),
        (0, Kind::NeighbourWritten, 3, 1),
        (0, Kind::NeighbourLookup, 4, 1),
        (0, Kind::NeighbourSkipped, 4, SkipReason::NotCached as u64),
    ]);
    assert!(!view.slots[&3].deferred);
    assert_eq!(
        (view.slots[&3].along, view.slots[&3].mark),
        (1, Mark::WrittenAlong)
    );
    assert_eq!(view.slots[&4].mark, Mark::Skipped(SkipReason::NotCached));
    assert_eq!(view.cpus[0].neighbour, None);
}

#[test]
fn an_event_of_a_cpu_that_is_not_there_changes_nothing_but_the_list() {
    let view = after(&[(9, Kind::LockAcquired, 0, 0)]);
    assert!(view.locks.is_empty() && view.slots.is_empty());
    assert_eq!((view.recent.len(), view.next), (1, 1));
}

#[test]
fn the_list_of_recent_events_does_not_grow_without_end() {
    let many = vec![(0, Kind::InodeRead, 2, 0); 1_000];
    assert_eq!(after(&many).recent.len(), 64);
}
