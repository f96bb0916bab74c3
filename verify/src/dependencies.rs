//! Explicit dependencies: whether every order that they allow gives the same.
//!
//! # Definition
//! Flows are partially ordered by the reflexive and transitive closure of the dependencies. Two flows *conflict* if both touch a
//! place and one of them writes it (two reductions conflict too). The schedule is `ordered` if any two conflicting flows are
//! ordered. Then all linear extensions give the same values, and [`crate::replay`] may take the order of flow numbers.
//!
//! # How it is computed
//! Take the accesses of one place in flow order. It is enough that each write is ordered after the write before it and after
//! every read since then, and each read after the write before it: all other conflicts follow by transitivity, and each of
//! these pairs is a conflict itself. So there are at most as many questions as accesses. A question "does u come before v" is
//! answered by walking back from v through dependencies, never below u nor to a flow that is less deep than u; all questions of
//! one v share a walk. The walks have a budget.

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::FlowId;
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Dependencies, Schedule};
use rondo_ir::text;
use rustc_hash::FxHashMap;

use crate::codes::Code;
use crate::findings::Findings;
use crate::places::Places;
use crate::replay::{rounds, units};
use crate::schedule::Options;

/// What the check found.
pub(crate) struct Order {
    pub findings: Findings,
    /// Pairs that had to be ordered.
    pub pairs: usize,
    pub undecided: Option<String>,
}

/// A pair that must be ordered, because of a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    after: u32,
    before: u32,
    place: u32,
}

/// Checks a well-formed schedule.
pub(crate) fn check(
    problem: &Problem,
    schedule: &Schedule,
    places: &Places<'_>,
    given: &Dependencies,
    options: &Options,
) -> Order {
    let mut order = Order { findings: Findings::new(options.findings), pairs: 0, undecided: None };
    let flows = schedule.flow_count();
    let moved: u64 = schedule.all_flows().map(|(_, flow)| u64::from(flow.count)).sum();
    if options.transfers < moved || u32::MAX as usize >> 2 < flows {
        order.undecided = Some(format!("{moved} slots move, but the limit is {}", options.transfers));
        return order;
    }
    let questions = questions(schedule, places);
    order.pairs = questions.len();
    let graph = Graph::new(given, flows);
    let mut walk = Walk { seen: vec![0; flows], stamp: 0, stack: Vec::new(), left: options.dependency_visits };
    let mut open = Vec::new();
    let mut at = 0;
    while at < questions.len() {
        let after = questions[at].after;
        let end = at + questions[at..].partition_point(|q| q.after == after);
        if !walk.answer(&graph, &questions[at..end], &mut open) {
            order.undecided = Some(format!(
                "the dependencies were not followed further than {} visits; {at} of {} pairs are decided",
                options.dependency_visits,
                questions.len()
            ));
            break;
        }
        at = end;
    }
    report(problem, schedule, places, &open, &mut order.findings);
    order
}

/// The pairs that must be ordered, each once, sorted by their later flow.
fn questions(schedule: &Schedule, places: &Places<'_>) -> Vec<Question> {
    /// Accesses of a place since its last write: that write, and the reads after it.
    #[derive(Clone, Default)]
    struct Recent {
        write: Option<u32>,
        reads: Vec<u32>,
    }
    let mut recent: FxHashMap<u32, Recent> = FxHashMap::default();
    let mut list = Vec::new();
    rounds(schedule, |round| {
        for (index, flow) in round.flows.iter().enumerate() {
            // Flow numbers were checked to fit.
            let id = (round.first + index) as u32;
            units(places, schedule, flow, |src, _, _| {
                let recent = recent.entry(src).or_default();
                if let Some(before) = recent.write {
                    list.push(Question { after: id, before, place: src });
                }
                if recent.reads.last() != Some(&id) {
                    recent.reads.push(id);
                }
            });
            units(places, schedule, flow, |_, dst, _| {
                let recent = recent.entry(dst).or_default();
                let earlier = recent.write.into_iter().chain(recent.reads.drain(..));
                list.extend(earlier.filter(|&before| before != id).map(|before| Question {
                    after: id,
                    before,
                    place: dst,
                }));
                recent.write = Some(id);
            });
        }
    });
    list.sort_unstable();
    list.dedup_by_key(|q| (q.after, q.before));
    list
}

/// What each flow waits for, and how deep it is: the length of the longest chain of flows before it.
struct Graph {
    start: Vec<usize>,
    before: Vec<u32>,
    depth: Vec<u32>,
}

impl Graph {
    fn new(given: &Dependencies, flows: usize) -> Self {
        let mut start = vec![0; flows + 1];
        for &(_, after) in &given.pairs {
            start[after.index() + 1] += 1;
        }
        for flow in 0..flows {
            start[flow + 1] += start[flow];
        }
        let mut next = start.clone();
        let mut before = vec![0; given.pairs.len()];
        for &(first, after) in &given.pairs {
            before[next[after.index()]] = first.number();
            next[after.index()] += 1;
        }
        let mut depth = vec![0; flows];
        for flow in 0..flows {
            let waits = &before[start[flow]..start[flow + 1]];
            depth[flow] = waits.iter().map(|&b| depth[b as usize] + 1).max().unwrap_or(0);
        }
        Self { start, before, depth }
    }

    fn waits_for(&self, flow: u32) -> &[u32] {
        &self.before[self.start[flow as usize]..self.start[flow as usize + 1]]
    }
}

struct Walk {
    seen: Vec<u32>,
    stamp: u32,
    stack: Vec<u32>,
    left: u64,
}

impl Walk {
    /// Adds the pairs that are not ordered to `open`; `false` if the budget is used up.
    fn answer(&mut self, graph: &Graph, questions: &[Question], open: &mut Vec<Question>) -> bool {
        let Some(first) = questions.first() else { return true };
        // Most pairs are dependencies themselves.
        let direct = graph.waits_for(first.after);
        let rest: Vec<&Question> = questions.iter().filter(|q| direct.binary_search(&q.before).is_err()).collect();
        if rest.is_empty() {
            return true;
        }
        let lowest = rest.iter().map(|q| q.before).min().unwrap_or(0);
        let shallowest = rest.iter().map(|q| graph.depth[q.before as usize]).min().unwrap_or(0);
        self.stamp += 1;
        self.stack.clear();
        self.stack.push(first.after);
        let mut wanted = rest.len();
        while let Some(flow) = self.stack.pop() {
            for &before in graph.waits_for(flow) {
                if self.left == 0 {
                    return false;
                }
                self.left -= 1;
                if before < lowest
                    || graph.depth[before as usize] < shallowest
                    || self.seen[before as usize] == self.stamp
                {
                    continue;
                }
                self.seen[before as usize] = self.stamp;
                self.stack.push(before);
                if rest.binary_search_by_key(&before, |q| q.before).is_ok() {
                    wanted -= 1;
                    if wanted == 0 {
                        return true;
                    }
                }
            }
        }
        open.extend(rest.into_iter().filter(|q| self.seen[q.before as usize] != self.stamp));
        true
    }
}

fn report(problem: &Problem, schedule: &Schedule, places: &Places<'_>, open: &[Question], findings: &mut Findings) {
    let mut lines: FxHashMap<u32, Option<String>> = FxHashMap::default();
    for question in open.iter().take(64) {
        lines.insert(question.before, None);
        lines.insert(question.after, None);
    }
    for (id, (step, flow)) in schedule.all_flows().enumerate() {
        if open.is_empty() {
            break;
        }
        if let Some(line) = u32::try_from(id).ok().and_then(|id| lines.get_mut(&id)) {
            *line = Some(text::flow_line(problem, schedule, step, FlowId::new(id), &flow));
        }
    }
    for question in open {
        if !findings.has_room() {
            findings.skip(1);
            continue;
        }
        let (rank, place) = places.name(question.place);
        let mut finding = Diagnostic::error(
            Code::Unordered.as_str(),
            format!(
                "f{} and f{} both touch {rank}.{place}, but may run in either order",
                question.before, question.after
            ),
        );
        for flow in [question.before, question.after] {
            if let Some(Some(line)) = lines.get(&flow) {
                finding = finding.note(format!("the flow is {line}"));
            }
        }
        findings.add(finding.help(format!("let f{} wait for f{}", question.after, question.before)));
    }
}
