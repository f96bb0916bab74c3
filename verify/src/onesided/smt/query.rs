//! Questions about order, as SMT-LIB 2: for each event a time for each strength of order that is asked about.
//!
//! `sN` is a time that respects the orders behind which written data is visible, `tN` one that respects all orders, and `pN` one of
//! a run, in which orders hold that nobody may rely on. Two events are ordered if no times let the second not come after the first.
//!
//! Where several threads signal one counter, a run decides which signals a wait hears of: those before it, and there must be
//! as many as it needs. `mK_N` says whether wait K hears of signal N; then both other times must respect that.
//!
//! As in [`crate::program`]'s questions, a chain of orders or times of a run are hints: a wrong one can cost the answer, not make
//! it wrong.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::events::{Conflict, Count, Events, Need, Scale, number32};

/// The second of two events does not come after the first, on a scale.
type NotAfter = (Scale, u32, u32);

/// Whether there are times such that all orders hold and, if any are given, one of the conjunctions of clauses does.
#[derive(Debug, Default)]
pub(super) struct Question {
    pub(super) title: String,
    /// What the graph says.
    pub(super) expected: bool,
    pub(super) orders: Vec<(Scale, u32, u32)>,
    pub(super) counts: Vec<Count>,
    pub(super) wrong: Vec<Vec<Vec<NotAfter>>>,
    pub(super) times: Vec<(Scale, u32, u32)>,
}

impl Question {
    /// Times that it speaks of, sorted.
    fn variables(&self) -> BTreeSet<(Scale, u32)> {
        let atoms = self.wrong.iter().flatten().flatten();
        let mut found: BTreeSet<(Scale, u32)> =
            self.orders.iter().chain(atoms).flat_map(|&(scale, a, b)| [(scale, a), (scale, b)]).collect();
        found.extend(self.times.iter().map(|&(scale, event, _)| (scale, event)));
        for count in &self.counts {
            let heard = count.signals.iter().map(|&(signal, _)| signal).chain([count.wait]);
            found.extend(heard.map(|event| (Scale::Run, event)));
        }
        found
    }

    pub(super) fn logic(&self) -> &'static str {
        if self.counts.is_empty() { "QF_IDL" } else { "QF_LIA" }
    }

    /// Declarations and assertions, and how many assertions.
    pub(super) fn text(&self, events: &Events<'_>) -> (String, usize) {
        let mut out = String::new();
        let assertions = self.write(events, &mut out).unwrap_or(0);
        (out, assertions)
    }

    fn write(&self, events: &Events<'_>, out: &mut String) -> Result<usize, std::fmt::Error> {
        let variables = self.variables();
        for (scale, event) in &variables {
            let letter = scale.letter();
            writeln!(out, "(declare-fun {letter}{event} () Int) ; {}", events.list[*event as usize].location())?;
        }
        let mut assertions = self.orders.len() + self.times.len();
        for &(scale, a, b) in &self.orders {
            let letter = scale.letter();
            writeln!(out, "(assert (< {letter}{a} {letter}{b}))")?;
        }
        for &(scale, event, time) in &self.times {
            writeln!(out, "(assert (= {}{event} {time}))", scale.letter())?;
        }
        for (number, Count { wait, needed, signals }) in self.counts.iter().enumerate() {
            for &(signal, strength) in signals {
                writeln!(out, "(declare-fun m{number}_{signal} () Bool)")?;
                writeln!(out, "(assert (= m{number}_{signal} (< p{signal} p{wait})))")?;
                assertions += 1;
                for scale in [Scale::Strong, Scale::Any].into_iter().filter(|&scale| strength <= scale) {
                    if variables.contains(&(scale, signal)) && variables.contains(&(scale, *wait)) {
                        let letter = scale.letter();
                        writeln!(out, "(assert (=> m{number}_{signal} (< {letter}{signal} {letter}{wait})))")?;
                        assertions += 1;
                    }
                }
            }
            write!(out, "(assert (<= {needed} (+ 0")?;
            for (signal, _) in signals {
                write!(out, " (ite m{number}_{signal} 1 0)")?;
            }
            writeln!(out, ")))")?;
            assertions += 1;
        }
        if !self.wrong.is_empty() {
            write!(out, "(assert (or false")?;
            for clauses in &self.wrong {
                write!(out, "\n  (and true")?;
                for clause in clauses {
                    write!(out, " (or false")?;
                    for (scale, first, second) in clause {
                        let letter = scale.letter();
                        write!(out, " (<= {letter}{second} {letter}{first})")?;
                    }
                    write!(out, ")")?;
                }
                write!(out, ")")?;
            }
            writeln!(out, "))")?;
            assertions += 1;
        }
        Ok(assertions)
    }
}

/// All orders on the scales that are asked for.
fn all_orders(events: &Events<'_>, scales: &[Scale]) -> Vec<(Scale, u32, u32)> {
    let on =
        |scale: Scale| events.orders.iter().filter(move |order| order.2 <= scale).map(move |&(a, b, _)| (scale, a, b));
    scales.iter().flat_map(|&scale| on(scale)).collect()
}

/// Asks for a run of all events; for a deadlock there is none.
pub(super) fn finishes(events: &Events<'_>, run: &[u32]) -> Question {
    let expected = run.len() == events.list.len();
    let orders = all_orders(events, &[Scale::Run]);
    let cycle = if expected || !events.counts.is_empty() { None } else { cycle(&orders, events, run) };
    Question {
        title: "a run of all events".to_owned(),
        expected,
        orders: cycle.unwrap_or(orders),
        counts: events.counts.clone(),
        wrong: Vec::new(),
        times: if expected { at_times(Scale::Run, run) } else { Vec::new() },
    }
}

fn at_times(scale: Scale, run: &[u32]) -> Vec<(Scale, u32, u32)> {
    let mut times: Vec<_> = run.iter().zip(0..).map(|(&event, time)| (scale, event, time)).collect();
    times.sort_unstable();
    times
}

/// Orders that go round in a circle, among events that never run.
fn cycle(orders: &[(Scale, u32, u32)], events: &Events<'_>, run: &[u32]) -> Option<Vec<(Scale, u32, u32)>> {
    let mut before: Vec<Option<u32>> = vec![None; events.list.len()];
    let mut runs = vec![false; events.list.len()];
    for &event in run {
        runs[event as usize] = true;
    }
    for &(_, a, b) in orders.iter().filter(|order| !runs[order.1 as usize]) {
        before[b as usize] = Some(a);
    }
    let mut at = number32(runs.iter().position(|runs| !runs)?);
    let mut met = vec![false; events.list.len()];
    while !std::mem::replace(&mut met[at as usize], true) {
        at = before[at as usize]?;
    }
    let last = at;
    let mut circle = Vec::new();
    loop {
        let earlier = before[at as usize]?;
        circle.push((Scale::Run, earlier, at));
        at = earlier;
        if at == last {
            return Some(circle);
        }
    }
}

/// Pairs that one question asks about.
const SLICE: usize = 64;

/// What asks whether conflicting accesses are ordered.
#[derive(Default)]
pub(super) struct RaceQuestions {
    /// For pairs with a chain of orders: only those of the chains. None may find anything.
    pub(super) slices: Vec<Question>,
    /// Nothing orders them: the conflict, and times at which both happen at once.
    pub(super) unordered: Vec<(Conflict, Question)>,
    /// Ordered, but written data need not be visible.
    pub(super) weak: Vec<Conflict>,
    /// A run decides.
    pub(super) open: Vec<Conflict>,
}

/// The questions about races. All events must be in `run`.
pub(super) fn races(events: &Events<'_>, conflicts: &[Conflict], run: &[u32]) -> RaceQuestions {
    let strong = Search::new(events, Scale::Strong, run);
    let any = Search::new(events, Scale::Any, run);
    let mut questions = RaceQuestions::default();
    let mut slice = Question::default();
    for conflict in conflicts {
        let &Conflict { first, second, .. } = conflict;
        match chains(events, conflict, &strong, &any) {
            Some(parts) => {
                for (scale, from, to, chain) in parts {
                    slice.wrong.push(vec![vec![(scale, from, to)]]);
                    slice.orders.extend(chain.into_iter().map(|(a, b)| (scale, a, b)));
                }
                if SLICE <= slice.wrong.len() {
                    questions.slices.push(finish(std::mem::take(&mut slice), questions.slices.len()));
                }
            }
            None if !events.counts.is_empty() => questions.open.push(*conflict),
            None if any.chain(first, second).is_some() => questions.weak.push(*conflict),
            None => questions.unordered.push((*conflict, at_once(events, &any, conflict, run))),
        }
    }
    if !slice.wrong.is_empty() {
        questions.slices.push(finish(slice, questions.slices.len()));
    }
    questions
}

fn finish(mut slice: Question, number: usize) -> Question {
    slice.title = format!("races, part {number}");
    slice.orders.sort_unstable();
    slice.orders.dedup();
    slice
}

type Chain = (Scale, u32, u32, Vec<(u32, u32)>);

/// Chains of orders that are as strong as the conflict needs.
fn chains(events: &Events<'_>, conflict: &Conflict, strong: &Search, any: &Search) -> Option<Vec<Chain>> {
    let &Conflict { first, second, .. } = conflict;
    let scale = if conflict.needs_strong() { strong } else { any };
    if let Some(chain) = scale.chain(first, second) {
        return Some(vec![(scale.scale, first, second, chain)]);
    }
    ends(events, conflict).into_iter().find_map(|end| {
        let (before, behind) = (strong.chain(first, end)?, any.chain(end, second)?);
        Some(vec![(Scale::Strong, first, end, before), (Scale::Any, end, second, behind)])
    })
}

/// Ends of kernels between two calls, which make what was written before them visible.
fn ends(events: &Events<'_>, conflict: &Conflict) -> Vec<u32> {
    if conflict.need != Need::Repeats || !conflict.first_writes {
        return Vec::new();
    }
    let first = &events.list[conflict.first as usize];
    let of = |rank: u32| events.ends[rank as usize][first.call as usize];
    if first.rank == conflict.owner { vec![of(first.rank)] } else { vec![of(first.rank), of(conflict.owner)] }
}

/// Whether a run leaves a conflict without the order that it needs.
fn lacking(events: &Events<'_>, conflict: &Conflict) -> Vec<Vec<NotAfter>> {
    let &Conflict { first, second, .. } = conflict;
    let scale = if conflict.needs_strong() { Scale::Strong } else { Scale::Any };
    let over = |end: u32| vec![(Scale::Strong, first, end), (Scale::Any, end, second)];
    [vec![(scale, first, second)]].into_iter().chain(ends(events, conflict).into_iter().map(over)).collect()
}

/// Asks about conflicts where a run decides which signals are heard.
pub(super) fn open(title: &str, events: &Events<'_>, conflicts: &[Conflict]) -> Question {
    Question {
        title: title.to_owned(),
        wrong: conflicts.iter().map(|conflict| lacking(events, conflict)).collect(),
        ..over_all_runs(events)
    }
}

/// Asks whether a run leaves two accesses without any order.
pub(super) fn at_once_in_some_run(events: &Events<'_>, conflict: &Conflict) -> Question {
    Question {
        title: "a race".to_owned(),
        wrong: vec![vec![vec![(Scale::Any, conflict.first, conflict.second)]]],
        ..over_all_runs(events)
    }
}

fn over_all_runs(events: &Events<'_>) -> Question {
    Question {
        orders: all_orders(events, &[Scale::Strong, Scale::Any, Scale::Run]),
        counts: events.counts.clone(),
        ..Question::default()
    }
}

/// Asks for times of a run in which both happen at once, and gives them.
fn at_once(events: &Events<'_>, search: &Search, conflict: &Conflict, run: &[u32]) -> Question {
    let pair = [conflict.first, conflict.second];
    let mut early = vec![false; events.list.len()];
    let mut stack = pair.to_vec();
    while let Some(at) = stack.pop() {
        for &before in &search.before[at as usize] {
            if !std::mem::replace(&mut early[before as usize], true) {
                stack.push(before);
            }
        }
    }
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    for &event in run.iter().filter(|event| !pair.contains(event)) {
        if early[event as usize] { before.push(event) } else { behind.push(event) }
    }
    let now = number32(before.len());
    let mut times = at_times(Scale::Any, &before);
    times.extend(pair.iter().map(|&event| (Scale::Any, event, now)));
    times.extend(behind.iter().zip(now + 1..).map(|(&event, time)| (Scale::Any, event, time)));
    times.sort_unstable();
    Question {
        title: "a race".to_owned(),
        expected: true,
        orders: all_orders(events, &[Scale::Any]),
        counts: Vec::new(),
        wrong: vec![vec![vec![(Scale::Any, conflict.first, conflict.second)]]],
        times,
    }
}

/// Finds shortest chains of orders.
struct Search {
    scale: Scale,
    before: Vec<Vec<u32>>,
    position: Vec<u32>,
}

impl Search {
    fn new(events: &Events<'_>, scale: Scale, run: &[u32]) -> Self {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); events.list.len()];
        for &(a, b, _) in events.orders.iter().filter(|order| order.2 <= scale) {
            before[b as usize].push(a);
        }
        let mut position = vec![0_u32; events.list.len()];
        for (at, &event) in (0_u32..).zip(run) {
            position[event as usize] = at;
        }
        Self { scale, before, position }
    }

    fn chain(&self, early: u32, late: u32) -> Option<Vec<(u32, u32)>> {
        let mut toward: rustc_hash::FxHashMap<u32, u32> = rustc_hash::FxHashMap::default();
        toward.insert(late, late);
        let mut met = vec![late];
        let mut next = 0;
        while let Some(&at) = met.get(next) {
            next += 1;
            if at == early {
                let mut chain = Vec::new();
                let mut at = early;
                while at != late {
                    let then = toward[&at];
                    chain.push((at, then));
                    at = then;
                }
                return Some(chain);
            }
            for &earlier in &self.before[at as usize] {
                if self.position[early as usize] <= self.position[earlier as usize] && !toward.contains_key(&earlier) {
                    toward.insert(earlier, at);
                    met.push(earlier);
                }
            }
        }
        None
    }
}
