//! Throughput, counts, and where the waiting goes.

use protocol::Clock;
use view::live::{Status, Totals};
use yew::{Html, html};

use crate::{app::App, crew::Run, format};

pub(crate) fn view(app: &App) -> Html {
    let Some((run, status)) = app.run.as_ref().and_then(|run| Some((run, run.status.as_ref()?))) else {
        return html! {
            <>
                <h2>{ "Numbers" }</h2>
                <p class="quiet">{ "Throughput, look-ups and the waiting appear here while a run goes on." }</p>
            </>
        };
    };
    html! {
        <>
            <h2>{ "Throughput" }</h2>
            { rate(run) }
            { figures(status) }
            <h2>{ "Counts" }</h2>
            { totals(run, status) }
            <h2>{ "Locks" }</h2>
            { locks(run, status) }
            { recent(run) }
        </>
    }
}

fn rate(run: &Run) -> Html {
    let per_second = run
        .operations_a_second()
        .map_or_else(|| "–".to_owned(), format::short);
    let unit = if run.clock == Clock::FlatOut {
        "operations a second, measured here"
    } else {
        "operations a second of the CPUs' time"
    };
    let threads = gloo::utils::window().navigator().hardware_concurrency();
    let oversubscribed = run.clock == Clock::FlatOut && f64::from(run.scenario.cpus) > threads;
    html! {
        <>
            <p class="rate"><b id="rate">{ per_second }</b><span>{ unit }</span></p>
            if oversubscribed {
                <p class="warning-text">
                    { format!("Oversubscribed: {} CPUs on {threads} threads of this computer. This measures the host's scheduler, not the lock.", run.scenario.cpus) }
                </p>
            }
        </>
    }
}

/// How long operations take, and whether all jobs get on alike.
fn figures(status: &Status) -> Html {
    let Some(figures) = &status.figures else {
        return html! {};
    };
    let row = |name: &'static str, help: &'static str, value: String| html! { <><dt title={help}>{ name }</dt><dd>{ value }</dd></> };
    html! {
        <dl class="numbers" id="figures">
            { row("An operation takes", "The mean of all so far", format::span(figures.mean_ns as u64)) }
            { row("Half of them up to", "The median", format::span(figures.half_ns)) }
            { row("99 % of them up to", "The 99th percentile", format::span(figures.most_ns)) }
            { row("The longest", "The longest of all so far", format::span(figures.longest_ns)) }
            { row("Fairness", "Jain's index of the jobs' operations: 1 where all did the same", format!("{:.3}", figures.fairness)) }
            { row("Spinning", "Of the time in which CPUs were busy", format!("{:.0} %", figures.spinning_percent)) }
        </dl>
    }
}

fn totals(run: &Run, status: &Status) -> Html {
    let Totals {
        operations,
        inode_writes,
        lookups,
        written_along,
        skipped,
        abandoned,
        reads,
    } = status.totals;
    let hash = run
        .stage
        .as_ref()
        .and_then(|stage| status.locks.get(usize::from(stage.hash_class)));
    let per_write = hash.and_then(|hash| status.totals.acquisitions_per_write(hash));
    let row = |name: &'static str, id: &'static str, value: String| html! { <><dt>{ name }</dt><dd id={id}>{ value }</dd></> };
    html! {
        <dl class="numbers">
            { row("Operations", "operations", format::count(operations)) }
            { row("Inode writes", "inode-writes", format::count(inode_writes)) }
            { row("Hash lock taken per inode write", "per-write", per_write.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))) }
            { row("Neighbours looked for", "lookups", format::count(lookups)) }
            { row("Written along", "written-along", format::count(written_along)) }
            { row("Left alone", "skipped", format::count(skipped)) }
            { row("Searches broken off", "abandoned", format::count(abandoned)) }
            { row("Reads", "reads", format::count(reads)) }
            if let Some(fingerprint) = status.fingerprint {
                { row("Fingerprint of the trace", "fingerprint", format!("{fingerprint:08x}")) }
            }
        </dl>
    }
}

fn locks(run: &Run, status: &Status) -> Html {
    let Some(stage) = &run.stage else { return html! {} };
    let used = stage
        .lock_classes
        .iter()
        .zip(&status.locks)
        .filter(|(_, lock)| lock.acquired + lock.failed > 0);
    html! {
        <table class="locks">
            <thead><tr>
                <th scope="col">{ "Lock" }</th><th scope="col" class="number">{ "Taken" }</th>
                <th scope="col" class="number">{ "After waiting" }</th><th scope="col" class="number">{ "Given up" }</th>
                <th scope="col" class="number">{ "Waited" }</th><th scope="col" class="number">{ "Held" }</th>
            </tr></thead>
            <tbody>
                { for used.map(|(name, lock)| {
                    let share = lock.contended as f64 / lock.acquired.max(1) as f64 * 100.0;
                    html! {
                        <tr>
                            <th scope="row">{ name }</th>
                            <td class="number">{ format::short(lock.acquired as f64) }</td>
                            <td class="number">{ format!("{share:.1} %") }</td>
                            <td class="number">{ format::short(lock.failed as f64) }</td>
                            <td class="number">{ format::span(lock.waited_ns) }</td>
                            <td class="number">{ held(run, lock.held_ns) }</td>
                        </tr>
                    }
                }) }
            </tbody>
        </table>
    }
}

/// Flat out nobody looks at a clock to see how long a lock is held.
fn held(run: &Run, held_ns: u64) -> String {
    match run.clock {
        Clock::FlatOut => "–".to_owned(),
        _ => format::span(held_ns),
    }
}

/// The last events in words: what the stage shows, for those who cannot see it.
fn recent(run: &Run) -> Html {
    let (Some(view), Some(stage)) = (&run.view, &run.stage) else {
        return html! {};
    };
    if run.clock == Clock::FlatOut {
        return html! {};
    }
    let text = |event: trace::Event| {
        let legend = event.kind.legend();
        let object = match legend.object {
            trace::Meaning::Lock => format!(" the {}", stage.lock_name(event.object).unwrap_or("lock")),
            trace::Meaning::Inode => format!(" {}", event.object),
            _ => String::new(),
        };
        let reason = match event.kind {
            trace::Kind::NeighbourSkipped => trace::SkipReason::from_number(event.argument)
                .map(|reason| format!(": {}", reason.text()))
                .unwrap_or_default(),
            _ => String::new(),
        };
        format!("CPU {} {}{object}{reason}", event.cpu, legend.text)
    };
    html! {
        <details class="recent">
            <summary>{ "The last events in words" }</summary>
            <ol>
                { for view.recent.iter().rev().take(24).map(|record| html! {
                    <li value={record.number.to_string()}>
                        <i style={format!("background:var(--{})", record.event.kind.legend().token.name())} aria-hidden="true"></i>
                        { text(record.event) }
                    </li>
                }) }
            </ol>
        </details>
    }
}
