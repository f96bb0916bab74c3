//! Plans to text. Everything is written by hand, so that the layout is fixed: one flow, link or operation a line, and
//! no mapping code is shared with the reader.

use std::fmt::Display;
use std::io::{self, Write};

use num_rational::Ratio;
use rondo_ir::collective::{Buffer, Collective, CollectiveKind, CustomCollective, Place};
use rondo_ir::index::{DeviceId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::program::{Connection, Operation, OperationKind, Program, RankProgram, Threadblock};
use rondo_ir::schedule::{
    Dependencies, Flow, FlowOp, FlowSet, Generator, PathKind, Route, RoutePart, Schedule, Scratch, Step, Tree,
};
use rondo_ir::topology::{
    Circuit, Configuration, Device, Hop, LegalConfigurations, Link, Medium, Node, NodeKind, Port, PortDirection,
    Topology,
};
use rondo_ir::units::{Rate, Time};

use super::{Claimed, FORMAT, LOOP_DEPTH_LIMIT, PlanRef, ProgramHeader, VERSION};

/// Why a plan was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The writer failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Loops nested deeper than any reader takes.
    #[error("loops are nested {given} deep; a plan file holds at most {limit}")]
    LoopTooDeep {
        /// Depth found.
        given: usize,
        /// Depth allowed.
        limit: usize,
    },
}

/// Writes the plan; ends with a line feed. The same plan gives the same bytes.
///
/// The writer need not be buffered: it gets large pieces.
///
/// # Errors
/// [`EmitError::Io`] where the writer fails, [`EmitError::LoopTooDeep`] before anything is written.
pub fn emit(plan: PlanRef<'_>, out: &mut dyn Write) -> Result<(), EmitError> {
    if let PlanRef::Program { program, .. } = plan {
        check_loops(program)?;
    }
    let mut writer = Writer { out: Some(out), text: Vec::with_capacity(2 * FLUSH), depth: 0, first: true };
    writer.plan(plan)?;
    writer.flush()?;
    Ok(())
}

/// The plan as text; ends with a line feed.
///
/// # Errors
/// [`EmitError::LoopTooDeep`].
pub fn to_text(plan: PlanRef<'_>) -> Result<String, EmitError> {
    if let PlanRef::Program { program, .. } = plan {
        check_loops(program)?;
    }
    let mut writer = Writer { out: None, text: Vec::new(), depth: 0, first: true };
    writer.plan(plan)?;
    String::from_utf8(writer.text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error).into())
}

fn check_loops(program: &Program) -> Result<(), EmitError> {
    // By hand with a list instead of recursion: the depth is what is not known yet.
    let mut open: Vec<(usize, &[Operation])> =
        program.ranks.iter().flat_map(|rank| &rank.threadblocks).map(|tb| (0, &tb.operations[..])).collect();
    let mut deepest = 0;
    while let Some((depth, operations)) = open.pop() {
        for operation in operations {
            if let OperationKind::Loop { body, .. } = &operation.kind {
                deepest = deepest.max(depth + 1);
                open.push((depth + 1, body));
            }
        }
    }
    if deepest <= LOOP_DEPTH_LIMIT {
        Ok(())
    } else {
        Err(EmitError::LoopTooDeep { given: deepest, limit: LOOP_DEPTH_LIMIT })
    }
}

/// Bytes collected before they are handed to the writer.
const FLUSH: usize = 1 << 18;

struct Writer<'a> {
    /// `None` collects everything.
    out: Option<&'a mut dyn Write>,
    text: Vec<u8>,
    depth: usize,
    /// Whether the innermost list or object is still empty.
    first: bool,
}

/// Layout: brackets, commas, lines, scalars.
impl Writer<'_> {
    fn flush(&mut self) -> io::Result<()> {
        if let Some(out) = &mut self.out {
            out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn raw(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: impl itoa::Integer) {
        self.text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A string with whatever JSON has to escape.
    fn string(&mut self, text: &str) {
        self.raw("\"");
        for c in text.chars() {
            match c {
                '"' => self.raw("\\\""),
                '\\' => self.raw("\\\\"),
                '\n' => self.raw("\\n"),
                '\t' => self.raw("\\t"),
                '\r' => self.raw("\\r"),
                c if c < ' ' => self.raw(&format!("\\u{:04x}", u32::from(c))),
                c => self.raw(c.encode_utf8(&mut [0; 4])),
            }
        }
        self.raw("\"");
    }

    /// A quantity as a string; no unit needs an escape.
    fn shown(&mut self, value: impl Display) {
        self.raw(&format!("\"{value}\""));
    }

    /// Begins the next entry of a list or object that has a line for each.
    fn line(&mut self) {
        if !self.first {
            self.raw(",");
        }
        self.first = false;
        self.raw("\n");
        for _ in 0..self.depth {
            self.raw(" ");
        }
    }

    /// Begins the next member of such an object.
    fn key(&mut self, key: &str) {
        self.line();
        self.raw("\"");
        self.raw(key);
        self.raw("\": ");
    }

    fn open(&mut self, bracket: &str) {
        self.raw(bracket);
        self.depth += 1;
        self.first = true;
    }

    fn close(&mut self, bracket: &str) {
        self.depth -= 1;
        if !self.first {
            self.raw("\n");
            for _ in 0..self.depth {
                self.raw(" ");
            }
        }
        self.first = false;
        self.raw(bracket);
    }

    /// A list with a line for each entry.
    fn lines<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) -> io::Result<()> {
        self.open("[");
        for item in items {
            self.line();
            each(self, item);
            if FLUSH <= self.text.len() {
                self.flush()?;
            }
        }
        self.close("]");
        Ok(())
    }

    /// A list on one line.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.raw("[");
        for (index, item) in items.into_iter().enumerate() {
            if index != 0 {
                self.raw(",");
            }
            each(self, item);
        }
        self.raw("]");
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.list(numbers, |w, number| w.number(number));
    }
}

/// The parts of a plan.
impl Writer<'_> {
    fn plan(&mut self, plan: PlanRef<'_>) -> io::Result<()> {
        self.open("{");
        self.depth = 0;
        self.key("format");
        self.string(FORMAT);
        self.key("version");
        self.string(VERSION);
        match plan {
            PlanRef::Schedule { problem, schedule, claimed } => {
                if let Some(claimed) = claimed {
                    self.top("claimed");
                    self.claimed(claimed);
                }
                self.top("problem");
                self.problem(problem)?;
                self.top("schedule");
                self.schedule(problem, schedule)?;
            }
            PlanRef::Program { claim, program } => {
                self.top("claim");
                self.claim(claim);
                self.top("program");
                self.program(claim, program)?;
            }
        }
        self.raw("\n}\n");
        Ok(())
    }

    /// A member of the outermost object, which is not indented.
    fn top(&mut self, key: &str) {
        self.depth = 0;
        self.first = false;
        self.key(key);
    }

    fn claimed(&mut self, claimed: &Claimed) {
        let Claimed { time, steps, checks } = claimed;
        self.open("{");
        if let Some(time) = time {
            self.key("time");
            self.time(time);
        }
        if !steps.is_empty() {
            self.key("steps");
            self.list(steps, Self::time);
        }
        if !checks.is_empty() {
            self.key("checks");
            self.list(checks, |w, check| w.string(check));
        }
        self.close("}");
    }

    fn time(&mut self, time: &Time) {
        let seconds = time.seconds();
        self.shown(format_args!("{}/{}", seconds.numer(), seconds.denom()));
    }

    fn problem(&mut self, problem: &Problem) -> io::Result<()> {
        self.open("{");
        self.key("topology");
        self.topology(problem.topology())?;
        self.key("placement");
        self.numbers(problem.placement().iter().map(|node| node.number()));
        if !problem.circuits().is_empty() {
            self.key("circuits");
            self.lines(problem.circuits(), Self::configuration)?;
        }
        self.key("groups");
        self.lines(problem.groups(), |w, group| {
            w.raw("{\"collective\": ");
            w.collective(group.collective());
            w.raw(", \"ranks\": ");
            w.numbers(group.ranks().iter().map(|rank| rank.number()));
            w.raw("}");
        })?;
        let cost = problem.cost();
        self.key("cost");
        self.raw("{\"startup\": ");
        self.shown(cost.startup);
        self.raw(", \"reduce_cost\": ");
        self.shown(cost.reduce_cost);
        self.raw(", \"copy_cost\": ");
        self.shown(cost.copy_cost);
        self.raw(", \"synchronisation\": ");
        self.shown(cost.synchronisation);
        if cost.overlap_reconfiguration {
            self.raw(", \"overlap_reconfiguration\": true");
        }
        self.raw("}");
        self.close("}");
        Ok(())
    }

    fn topology(&mut self, topology: &Topology) -> io::Result<()> {
        self.open("{");
        self.key("name");
        self.string(topology.name());
        self.key("nodes");
        self.lines(topology.nodes(), Self::node)?;
        self.key("links");
        self.lines(topology.links(), Self::link)?;
        if !topology.media().is_empty() {
            self.key("media");
            self.lines(topology.media(), |w, Medium { name, capacity, links }| {
                w.raw("{\"name\": ");
                w.string(name);
                w.raw(", \"capacity\": ");
                w.shown(capacity);
                w.raw(", \"links\": ");
                w.numbers(links.iter().map(|link| link.number()));
                w.raw("}");
            })?;
        }
        if !topology.devices().is_empty() {
            self.key("devices");
            self.open("[");
            for device in topology.devices() {
                self.line();
                self.device(device)?;
            }
            self.close("]");
        }
        self.close("}");
        Ok(())
    }

    fn node(&mut self, node: &Node) {
        let Node { name, kind, forwards, multicasts, reduces, injection, ejection, throughput } = node;
        self.raw("{\"name\": ");
        self.string(name);
        self.raw(match kind {
            NodeKind::Compute => ", \"kind\": \"compute\"",
            NodeKind::Switch => ", \"kind\": \"switch\"",
        });
        self.raw(if *forwards { ", \"forwards\": true" } else { ", \"forwards\": false" });
        if *multicasts {
            self.raw(", \"multicasts\": true");
        }
        if *reduces {
            self.raw(", \"reduces\": true");
        }
        let mut rate = |key: &str, rate: Option<Rate>| {
            if let Some(rate) = rate {
                self.raw(key);
                self.shown(rate);
            }
        };
        rate(", \"injection\": ", *injection);
        rate(", \"ejection\": ", *ejection);
        rate(", \"throughput\": ", *throughput);
        self.raw("}");
    }

    fn link(&mut self, &Link { src, dst, capacity, latency, up }: &Link) {
        self.raw("[");
        self.number(src.number());
        self.raw(",");
        self.number(dst.number());
        self.raw(",");
        self.shown(capacity);
        self.raw(",");
        self.shown(latency);
        self.raw(if up { "]" } else { ",\"down\"]" });
    }

    fn device(&mut self, device: &Device) -> io::Result<()> {
        let Device { name, ports, reconfiguration_delay, legal } = device;
        self.open("{");
        self.key("name");
        self.string(name);
        self.key("reconfiguration_delay");
        self.shown(reconfiguration_delay);
        self.key("ports");
        self.lines(ports, |w, &Port { node, direction, capacity, latency }| {
            w.raw("[");
            w.number(node.number());
            w.raw(match direction {
                PortDirection::Tx => ",\"tx\",",
                PortDirection::Rx => ",\"rx\",",
                PortDirection::Duplex => ",\"duplex\",",
            });
            w.shown(capacity);
            w.raw(",");
            w.shown(latency);
            w.raw("]");
        })?;
        self.key("legal");
        match legal {
            LegalConfigurations::AnyMatching => self.raw("{\"rule\": \"any-matching\"}"),
            LegalConfigurations::Only { circuits } => {
                self.raw("{\"rule\": \"only\", \"circuits\": ");
                self.list(circuits, Self::circuit);
                self.raw("}");
            }
            LegalConfigurations::Cycle { configurations } => {
                self.raw("{\"rule\": \"cycle\", \"configurations\": ");
                self.lines(configurations, Self::configuration)?;
                self.raw("}");
            }
        }
        self.close("}");
        Ok(())
    }

    fn circuit(&mut self, &Circuit { from, to }: &Circuit) {
        self.numbers([from.number(), to.number()]);
    }

    fn configuration(&mut self, configuration: &Configuration) {
        self.list(configuration.circuits(), Self::circuit);
    }

    fn collective(&mut self, collective: &Collective) {
        self.raw("{\"kind\": ");
        self.string(collective.kind().name());
        let mut sized = true;
        match collective.kind() {
            CollectiveKind::AllReduce
            | CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll { matrix: None } => {}
            CollectiveKind::AllToAll { matrix: Some(matrix) } => {
                sized = false;
                self.raw(", \"matrix\": ");
                self.list(matrix, |w, row| w.list(row, |w, &elements| w.number(elements)));
            }
            CollectiveKind::Broadcast { root }
            | CollectiveKind::Reduce { root }
            | CollectiveKind::Gather { root }
            | CollectiveKind::Scatter { root } => {
                self.raw(", \"root\": ");
                self.number(*root);
            }
            CollectiveKind::SendReceive { targets } => {
                self.raw(", \"targets\": ");
                self.list(targets, |w, target| match target {
                    Some(target) => w.number(*target),
                    None => w.raw("null"),
                });
            }
            CollectiveKind::Custom(CustomCollective { input_slots, output }) => {
                self.raw(", \"input_slots\": ");
                self.numbers(input_slots.iter().copied());
                self.raw(", \"output\": ");
                self.list(output, |w, slots| {
                    w.list(slots, |w, held| match held {
                        None => w.raw("null"),
                        Some(held) => w.list(held, |w, (contribution, count)| {
                            w.raw("[");
                            w.number(contribution.origin);
                            w.raw(",");
                            w.number(contribution.slot);
                            w.raw(",");
                            w.number(*count);
                            w.raw("]");
                        }),
                    });
                });
            }
        }
        self.raw(", \"operator\": ");
        self.string(collective.operator().name());
        self.raw(", \"dtype\": ");
        self.string(collective.dtype().name());
        if sized {
            self.raw(", \"buffer_size\": ");
            self.shown(collective.buffer_size());
        }
        self.raw(if collective.in_place() { ", \"in_place\": true" } else { ", \"in_place\": false" });
        if collective.input_writable() {
            self.raw(", \"input_writable\": true");
        }
        self.raw("}");
    }

    fn place(&mut self, place: Place) {
        self.raw(match place.buffer() {
            Buffer::Input => "\"i\",",
            Buffer::Output => "\"o\",",
            Buffer::Scratch => "\"s\",",
        });
        self.number(place.slot());
    }

    fn schedule(&mut self, problem: &Problem, schedule: &Schedule) -> io::Result<()> {
        let Schedule { algorithm, chunks, scratch, paths, generators, steps, dependencies, leaves_circuits } = schedule;
        self.open("{");
        self.key("algorithm");
        self.string(algorithm);
        self.key("chunks");
        self.numbers(chunks.iter().copied());
        let plain = scratch.len() == problem.groups().len() && scratch.iter().all(|s| s.like.is_empty());
        if !plain {
            self.key("scratch");
            self.open("[");
            for Scratch { like } in scratch {
                self.line();
                self.lines(like, |w, slots| {
                    w.list(slots, |w, &(position, place)| {
                        w.raw("[");
                        w.number(position);
                        w.raw(",");
                        w.place(place);
                        w.raw("]");
                    });
                })?;
            }
            self.close("]");
        }
        if paths.routes().len() != 0 {
            self.key("routes");
            self.lines(paths.routes(), Self::route)?;
        }
        if paths.trees().len() != 0 {
            self.key("trees");
            self.lines(paths.trees(), |w, Tree { hops, leaves }| {
                w.raw("{\"hops\": ");
                w.list(hops, Self::hop);
                w.raw(", \"leaves\": ");
                w.numbers(leaves.iter().map(|rank| rank.number()));
                w.raw("}");
            })?;
        }
        if !generators.is_empty() {
            self.key("generators");
            self.lines(generators, Self::generator)?;
        }
        self.key("steps");
        self.open("[");
        for step in steps {
            self.line();
            self.step(step)?;
        }
        self.close("]");
        if let Some(Dependencies { pairs }) = dependencies {
            self.key("dependencies");
            self.lines(pairs, |w, (before, after)| w.numbers([before.number(), after.number()]))?;
        }
        if !leaves_circuits.is_empty() {
            self.key("leaves_circuits");
            self.lines(leaves_circuits, Self::configuration)?;
        }
        self.close("}");
        Ok(())
    }

    fn hop(&mut self, hop: &Hop) {
        match *hop {
            Hop::Link(link) => self.number(link.number()),
            Hop::Circuit(device, Circuit { from, to }) => self.numbers([device.number(), from.number(), to.number()]),
        }
    }

    fn route(&mut self, route: &Route) {
        if let [RoutePart { weight, hops }] = &route.parts[..]
            && *weight == Ratio::new_raw(1, 1)
        {
            self.list(hops, Self::hop);
            return;
        }
        self.raw("{\"parts\": ");
        self.list(&route.parts, |w, RoutePart { weight, hops }| {
            w.raw("{\"weight\": ");
            w.shown(format_args!("{}/{}", weight.numer(), weight.denom()));
            w.raw(", \"hops\": ");
            w.list(hops, Self::hop);
            w.raw("}");
        });
        self.raw("}");
    }

    fn generator(&mut self, Generator { ranks, slots, routes, trees }: &Generator) {
        self.raw("{\"ranks\": ");
        self.numbers(ranks.iter().map(|rank| rank.number()));
        self.raw(", \"slots\": ");
        self.list(slots, |w, tables| w.list(tables, |w, table| w.numbers(table.iter().copied())));
        self.raw(", \"routes\": ");
        self.numbers(routes.iter().map(|route| route.number()));
        self.raw(", \"trees\": ");
        self.numbers(trees.iter().map(|tree| tree.number()));
        self.raw("}");
    }

    fn step(&mut self, Step { reconfigure, flows }: &Step) -> io::Result<()> {
        self.raw("{");
        if !reconfigure.is_empty() {
            self.raw("\"set\": ");
            self.list(reconfigure, |w, (device, configuration): &(DeviceId, Configuration)| {
                w.raw("[");
                w.number(device.number());
                w.raw(",");
                w.configuration(configuration);
                w.raw("]");
            });
            self.raw(", ");
        }
        match flows {
            FlowSet::Rows(rows) => {
                self.raw("\"flows\": ");
                self.lines(rows, Self::flow)?;
            }
            FlowSet::Orbits { representatives, generators } => {
                self.raw("\"generators\": ");
                self.numbers(generators.iter().map(|generator| generator.number()));
                self.raw(", \"representatives\": ");
                self.lines(representatives, Self::flow)?;
            }
        }
        self.raw("}");
        Ok(())
    }

    fn flow(&mut self, flow: &Flow) {
        let &Flow { src, dst, src_place, dst_place, count, path, group, op } = flow;
        self.raw("[");
        self.number(src.number());
        self.raw(",");
        self.place(src_place);
        self.raw(",");
        self.number(dst.number());
        self.raw(",");
        self.place(dst_place);
        self.raw(",");
        self.number(count);
        self.raw(match op {
            FlowOp::Copy => ",\"copy\",",
            FlowOp::Reduce => ",\"reduce\",",
        });
        match path.kind() {
            PathKind::Local => self.raw("\"local\""),
            PathKind::Route(route) => self.number(route.number()),
            PathKind::Multicast(tree) => {
                self.raw("[\"multicast\",");
                self.number(tree.number());
                self.raw("]");
            }
            PathKind::Aggregate(tree) => {
                self.raw("[\"aggregate\",");
                self.number(tree.number());
                self.raw("]");
            }
        }
        if group.index() != 0 {
            self.raw(",");
            self.number(group.number());
        }
        self.raw("]");
    }

    fn claim(&mut self, ProgramHeader { collective, chunks }: &ProgramHeader) {
        self.raw("{\"collective\": ");
        self.collective(collective);
        self.raw(", \"ranks\": ");
        self.number(collective.ranks());
        self.raw(", \"chunks\": ");
        self.number(*chunks);
        self.raw("}");
    }

    fn program(&mut self, claim: &ProgramHeader, program: &Program) -> io::Result<()> {
        let Program { name, chunks, fifo_depth, ranks } = program;
        self.open("{");
        self.key("name");
        self.string(name);
        if *chunks != claim.chunks {
            self.key("chunks");
            self.number(*chunks);
        }
        self.key("fifo_depth");
        self.number(*fifo_depth);
        self.key("ranks");
        self.open("[");
        for RankProgram { scratch_slots, threadblocks, span: _ } in ranks {
            self.line();
            self.raw("{");
            if *scratch_slots != 0 {
                self.raw("\"scratch_slots\": ");
                self.number(*scratch_slots);
                self.raw(", ");
            }
            self.raw("\"threadblocks\": ");
            self.open("[");
            for Threadblock { id, operations, span: _ } in threadblocks {
                self.line();
                self.raw("{\"id\": ");
                self.number(*id);
                self.raw(", \"operations\": ");
                self.operations(operations)?;
                self.raw("}");
            }
            self.close("]");
            self.raw("}");
        }
        self.close("]");
        self.close("}");
        Ok(())
    }

    fn operations(&mut self, operations: &[Operation]) -> io::Result<()> {
        self.open("[");
        for operation in operations {
            self.line();
            self.operation(operation)?;
            if FLUSH <= self.text.len() {
                self.flush()?;
            }
        }
        self.close("]");
        Ok(())
    }

    fn operation(&mut self, Operation { kind, waits_for, publishes, span: _ }: &Operation) -> io::Result<()> {
        self.raw("{\"op\": ");
        match kind {
            OperationKind::Nop => self.raw("\"nop\""),
            OperationKind::Move { receive, local, store, send, count } => {
                self.raw("\"move\"");
                self.connection(", \"receive\": ", *receive);
                if let Some(place) = local {
                    self.local_place(", \"local\": ", *place);
                }
                if let Some(place) = store {
                    self.local_place(", \"store\": ", *place);
                }
                self.connection(", \"send\": ", *send);
                self.member(", \"count\": ", *count);
            }
            OperationKind::Reduce { sources, dst, count } => {
                self.raw("\"reduce\", \"sources\": ");
                self.list(sources, |w, &place| w.local_place("", place));
                self.local_place(", \"dst\": ", *dst);
                self.member(", \"count\": ", *count);
            }
            OperationKind::Put { src, to, op, count } => {
                self.raw("\"put\"");
                self.local_place(", \"src\": ", *src);
                self.raw(", \"to\": ");
                self.list(to, Self::remote_place);
                self.adds(*op);
                self.member(", \"count\": ", *count);
            }
            OperationKind::Get { from, dst, op, count } => {
                self.raw("\"get\", \"from\": ");
                self.list(from, Self::remote_place);
                self.local_place(", \"dst\": ", *dst);
                self.adds(*op);
                self.member(", \"count\": ", *count);
            }
            OperationKind::Signal { peer, counter } => {
                self.raw("\"signal\"");
                self.member(", \"peer\": ", peer.number());
                self.member(", \"counter\": ", *counter);
            }
            OperationKind::Wait { counter, value, stride } => {
                self.raw("\"wait\"");
                self.member(", \"counter\": ", *counter);
                self.member(", \"value\": ", *value);
                if *stride != 0 {
                    self.member(", \"stride\": ", *stride);
                }
            }
            OperationKind::Barrier { barrier, threadblocks } => {
                self.raw("\"barrier\"");
                self.member(", \"barrier\": ", *barrier);
                self.raw(", \"threadblocks\": ");
                self.numbers(threadblocks.iter().copied());
            }
            OperationKind::Loop { times, body } => {
                self.raw("\"loop\"");
                self.member(", \"times\": ", *times);
                self.raw(", \"body\": ");
                self.operations(body)?;
            }
        }
        if !waits_for.is_empty() {
            self.raw(", \"after\": ");
            self.list(waits_for, |w, wait| w.numbers([wait.threadblock, wait.operation]));
        }
        if *publishes {
            self.raw(", \"publishes\": true");
        }
        self.raw("}");
        Ok(())
    }

    fn member(&mut self, key: &str, number: impl itoa::Integer) {
        self.raw(key);
        self.number(number);
    }

    fn connection(&mut self, key: &str, connection: Option<Connection>) {
        if let Some(Connection { peer, channel }) = connection {
            self.raw(key);
            self.numbers([peer.number(), channel]);
        }
    }

    fn local_place(&mut self, key: &str, place: Place) {
        self.raw(key);
        self.raw("[");
        self.place(place);
        self.raw("]");
    }

    fn remote_place(&mut self, &(rank, place): &(RankId, Place)) {
        self.raw("[");
        self.number(rank.number());
        self.raw(",");
        self.place(place);
        self.raw("]");
    }

    fn adds(&mut self, op: FlowOp) {
        self.raw(match op {
            FlowOp::Copy => "",
            FlowOp::Reduce => ", \"reduce\": true",
        });
    }
}
