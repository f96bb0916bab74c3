//! Well-formedness: everything that later checks take for granted, and the unrolled program.

use rondo_ir::collective::{Buffer, Place};
use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::RankId;
use rondo_ir::program::{Connection, Operation, OperationKind, Program, RankProgram, Threadblock};
use rondo_ir::text::place_range;
use rustc_hash::FxHashMap;

use super::ProgramOptions;
use super::flat::{Conn, Flat, FlatOp, NONE, Places, Tb};
use super::report::{Findings, Location};
use crate::Claim;

/// Loops in loops deeper than this are not looked at.
const NESTING: u32 = 16;

/// Why there is no unrolled program.
pub(super) enum Stop {
    /// Faults were found that leave nothing to run.
    Refuted,
    /// Larger than the options allow.
    TooLarge(String),
}

/// Checks the form and unrolls. Faults that leave the meaning of the program clear do not stop it.
pub(super) fn check<'a>(
    claim: &'a Claim,
    program: &'a Program,
    options: &ProgramOptions,
    findings: &mut Findings,
) -> Result<Flat<'a>, Stop> {
    let places = fits_claim(claim, program, options, findings)?;
    let size = measure(program, findings)?;
    let mut form = Form { program, places: &places, findings, fatal: false };
    for (rank, of_rank) in (0_u32..).zip(&program.ranks) {
        form.rank(rank, of_rank);
    }
    if form.fatal {
        return Err(Stop::Refuted);
    }
    fits(size, options, findings)?;
    let mut unroller = Unroller::new(program);
    for (rank, of_rank) in (0_u32..).zip(&program.ranks) {
        unroller.rank(rank, of_rank, findings);
    }
    let Unroller { tbs, ops, conns, rank_tbs, top_last, publisher, wide_messages, fatal, .. } = unroller;
    let flat = Flat { tbs, ops, conns, places, rank_tbs, top_last, publisher, wide_messages };
    let fatal = fatal | pairing(&flat, findings) | counters(&flat, findings) | barriers(&flat, findings);
    if fatal { Err(Stop::Refuted) } else { Ok(flat) }
}

fn fits_claim<'a>(
    claim: &'a Claim,
    program: &Program,
    options: &ProgramOptions,
    findings: &mut Findings,
) -> Result<Places<'a>, Stop> {
    let (given, limit) = (program.ranks.len(), claim.collective.ranks());
    let mut fault = |message: String| findings.add(Diagnostic::error("V101", message), Vec::new());
    if given != limit as usize {
        fault(format!("the program has {given} ranks, the collective {limit}"));
    }
    if program.chunks != claim.chunks {
        fault(format!("the program cuts a block into {} chunks, the claim into {}", program.chunks, claim.chunks));
    }
    if options.fifo_depth.unwrap_or(program.fifo_depth) == 0 {
        fault("connections hold 0 messages; nothing could ever be sent".to_owned());
    }
    if findings.errors() != 0 {
        return Err(Stop::Refuted);
    }
    let layout = match claim.collective.layout(claim.chunks) {
        Ok(layout) => layout,
        Err(error) => {
            findings.add(Diagnostic::error("V101", format!("the claim has no layout: {error}")), Vec::new());
            return Err(Stop::Refuted);
        }
    };
    let limit = options.work_limit;
    let scratch = program.ranks.iter().map(|rank| rank.scratch_slots);
    Places::new(layout, scratch, limit).map_err(|given| too_large(given, "slots in all buffers", limit, findings))
}

fn too_large(given: u64, what: &str, limit: u64, findings: &mut Findings) -> Stop {
    let given = if given == u64::MAX { "more than 2^64".to_owned() } else { given.to_string() };
    let message = format!("the program has {given} {what}; at most {limit} are looked at");
    let help = "raise the work limit if the program is meant to be that large";
    findings.add(Diagnostic::warning("V111", message.clone()).help(help), Vec::new());
    Stop::TooLarge(message)
}

/// Slots touched by an operation of several parts.
fn many(parts: usize, count: u32) -> u64 {
    (parts as u64 + 2).saturating_mul(u64::from(count))
}

/// Counts what unrolling would give, before anything is unrolled: atoms, and slots touched.
fn measure(program: &Program, findings: &mut Findings) -> Result<(u64, u64), Stop> {
    fn of(operations: &[Operation], nesting: u32) -> Option<(u64, u64)> {
        let (mut atoms, mut slots) = (0_u64, 0_u64);
        for operation in operations {
            let (more_atoms, more_slots) = match &operation.kind {
                OperationKind::Nop | OperationKind::Signal { .. } | OperationKind::Wait { .. } => (1, 0),
                OperationKind::Barrier { threadblocks, .. } => (2, threadblocks.len() as u64),
                OperationKind::Move { receive, local, store, send, count } => {
                    let slots = u64::from(local.is_some()) + u64::from(store.is_some()) + 1;
                    let split = receive.is_some() || send.is_some();
                    (if split { u64::from(*count) } else { 1 }, slots * u64::from(*count))
                }
                OperationKind::Reduce { sources, count, .. } => (1, many(sources.len(), *count)),
                OperationKind::Put { to, count, .. } => (1, many(to.len(), *count)),
                OperationKind::Get { from, count, .. } => (1, many(from.len(), *count)),
                OperationKind::Loop { times, body } => {
                    let (atoms, slots) = of(body, nesting.checked_sub(1)?)?;
                    let times = u64::from(*times);
                    (atoms.saturating_mul(times).saturating_add(2), slots.saturating_mul(times))
                }
            };
            atoms = atoms.saturating_add(more_atoms).saturating_add(operation.waits_for.len() as u64);
            slots = slots.saturating_add(more_slots);
        }
        Some((atoms, slots))
    }
    let (mut atoms, mut slots) = (0_u64, 0_u64);
    for tb in program.ranks.iter().flat_map(|rank| &rank.threadblocks) {
        let Some((more_atoms, more_slots)) = of(&tb.operations, NESTING) else {
            let message = format!("loops are nested more than {NESTING} deep; the program is not looked at");
            findings.add(Diagnostic::warning("V111", message.clone()), Vec::new());
            return Err(Stop::TooLarge(message));
        };
        atoms = atoms.saturating_add(more_atoms);
        slots = slots.saturating_add(more_slots);
    }
    Ok((atoms, slots))
}

/// Whether that can be worked on.
fn fits((atoms, slots): (u64, u64), options: &ProgramOptions, findings: &mut Findings) -> Result<(), Stop> {
    let limit = options.work_limit.min(u64::from(u32::MAX) / 4);
    if limit < atoms {
        return Err(too_large(atoms, "operations, loops and messages unrolled", limit, findings));
    }
    if limit < slots {
        return Err(too_large(slots, "slots touched by its operations", limit, findings));
    }
    Ok(())
}

/// Checks that need one operation at a time.
struct Form<'a, 'f> {
    program: &'a Program,
    places: &'f Places<'a>,
    findings: &'f mut Findings,
    /// Whether a fault leaves the meaning of the program open.
    fatal: bool,
}

/// The operation that is looked at.
#[derive(Clone, Copy)]
struct At<'a> {
    rank: u32,
    tb: u32,
    top: u32,
    location: Location,
    operation: &'a Operation,
}

impl At<'_> {
    /// `r0 threadblock 1 instruction 2 (line 9)`
    fn name(&self) -> String {
        self.location.to_string()
    }
}

impl<'a> Form<'a, '_> {
    fn rank(&mut self, rank: u32, of_rank: &'a RankProgram) {
        for (tb, block) in (0_u32..).zip(&of_rank.threadblocks) {
            for (top, operation) in (0_u32..).zip(&block.operations) {
                let location = Location {
                    rank: RankId::from(rank),
                    threadblock: Some(block.id),
                    operation: Some(top),
                    inner: None,
                    span: operation.span,
                };
                self.operation(At { rank, tb, top, location, operation }, &mut 0);
            }
        }
    }

    fn fault(&mut self, at: &At<'_>, code: &'static str, message: String) {
        self.fatal = true;
        self.findings.add(Diagnostic::error(code, message), vec![(at.location, String::new())]);
    }

    fn operation(&mut self, at: At<'a>, inner: &mut u32) {
        self.dependencies(&at);
        let me = at.rank;
        match &at.operation.kind {
            OperationKind::Nop | OperationKind::Wait { .. } => {}
            OperationKind::Move { receive, local, store, send, count } => {
                for connection in receive.iter().chain(send) {
                    self.connection(&at, *connection);
                }
                if receive.is_none() && local.is_none() {
                    self.fault(&at, "V109", format!("{} neither receives nor reads, so it has no value", at.name()));
                }
                let reads = local.is_none_or(|place| self.range(&at, me, place, *count, "reads"));
                let writes = store.is_none_or(|place| self.range(&at, me, place, *count, "writes"));
                if let (Some(local), Some(store), true, true) = (local, store, reads, writes) {
                    self.apart(&at, (me, *local), (me, *store), *count, false);
                }
                if let Some(place) = store
                    && writes
                {
                    self.writable(&at, me, *place, *count);
                }
                self.some_slots(&at, *count);
            }
            OperationKind::Reduce { sources, dst, count } => {
                if sources.is_empty() {
                    self.fault(&at, "V109", format!("{} adds nothing", at.name()));
                }
                let writes = self.range(&at, me, *dst, *count, "writes");
                for &source in sources {
                    if self.range(&at, me, source, *count, "reads") && writes {
                        self.apart(&at, (me, source), (me, *dst), *count, 1 < sources.len());
                    }
                }
                if writes {
                    self.writable(&at, me, *dst, *count);
                }
                self.some_slots(&at, *count);
            }
            OperationKind::Put { src, to, op: _, count } => {
                if to.is_empty() {
                    self.fault(&at, "V109", format!("{} puts to nobody", at.name()));
                }
                let reads = self.range(&at, me, *src, *count, "reads");
                for (index, &(peer, place)) in to.iter().enumerate() {
                    if self.peer(&at, peer) && self.range(&at, peer.number(), place, *count, "writes") && reads {
                        self.apart(&at, (me, *src), (peer.number(), place), *count, false);
                        self.writable(&at, peer.number(), place, *count);
                        for &(other, other_place) in to[..index].iter().filter(|(other, _)| *other == peer) {
                            if self.places.contains(other.number(), other_place, *count) {
                                self.apart(&at, (other.number(), other_place), (peer.number(), place), *count, true);
                            }
                        }
                    }
                }
                self.some_slots(&at, *count);
            }
            OperationKind::Get { from, dst, op: _, count } => {
                if from.is_empty() {
                    self.fault(&at, "V109", format!("{} gets from nobody", at.name()));
                }
                let writes = self.range(&at, me, *dst, *count, "writes");
                for &(peer, place) in from {
                    if self.peer(&at, peer) && self.range(&at, peer.number(), place, *count, "reads") && writes {
                        self.apart(&at, (peer.number(), place), (me, *dst), *count, false);
                    }
                }
                if writes {
                    self.writable(&at, me, *dst, *count);
                }
                self.some_slots(&at, *count);
            }
            OperationKind::Signal { peer, counter: _ } => {
                self.peer(&at, *peer);
            }
            OperationKind::Barrier { barrier, threadblocks } => self.barrier(&at, *barrier, threadblocks),
            OperationKind::Loop { times: _, body } => {
                for operation in body {
                    let location = Location { inner: Some(*inner), span: operation.span, ..at.location };
                    *inner += 1;
                    self.operation(At { location, operation, ..at }, inner);
                }
            }
        }
    }

    fn some_slots(&mut self, at: &At<'_>, count: u32) {
        if count == 0 {
            self.fault(at, "V109", format!("{} moves 0 slots", at.name()));
        }
    }

    fn peer(&mut self, at: &At<'_>, peer: RankId) -> bool {
        let exists = peer.index() < self.program.ranks.len();
        if !exists {
            let ranks = self.program.ranks.len();
            self.fault(at, "V103", format!("{} names rank {peer}, but there are {ranks} ranks", at.name()));
        }
        exists
    }

    fn connection(&mut self, at: &At<'_>, connection: Connection) {
        if self.peer(at, connection.peer) && connection.peer.number() == at.rank {
            self.fault(at, "V103", format!("{} sends to or receives from its own rank", at.name()));
        }
    }

    fn range(&mut self, at: &At<'_>, rank: u32, place: Place, count: u32, verb: &str) -> bool {
        // An operation without slots is reported as such.
        if count == 0 {
            return false;
        }
        let exists = self.places.contains(rank, place, count);
        if !exists {
            let (name, buffer) = match place.buffer() {
                Buffer::Input => ("input", Buffer::Input),
                Buffer::Output => ("output", Buffer::Output),
                Buffer::Scratch => ("scratch", Buffer::Scratch),
            };
            let slots = match buffer {
                Buffer::Scratch => self.places.extents[rank as usize][2],
                buffer => self.places.layout.slots(rank, buffer),
            };
            let range = place_range(RankId::from(rank), place, count);
            let end = u64::from(place.slot()) + u64::from(count);
            self.fault(
                at,
                "V102",
                format!(
                    "{} {verb} {range}, but the {name} buffer of r{rank} has {slots} slots, so slot {} does not exist",
                    at.name(),
                    end - 1
                ),
            );
        }
        exists
    }

    /// Faults if two ranges of an operation share memory: shifted, or at all if `strict`.
    fn apart(&mut self, at: &At<'_>, a: (u32, Place), b: (u32, Place), count: u32, strict: bool) {
        if a.0 != b.0 || count == 0 {
            return;
        }
        let (first, second) = (self.places.locate(a.0, a.1), self.places.locate(b.0, b.1));
        let distance = first.abs_diff(second);
        if distance < count && (strict || distance != 0) {
            let range = |(rank, place)| place_range(RankId::from(rank), place, count);
            self.fault(at, "V110", format!("{} uses {} and {}, which overlap", at.name(), range(a), range(b)));
        }
    }

    /// A write to a read-only input is an error, but leaves the meaning clear.
    fn writable(&mut self, at: &At<'_>, rank: u32, place: Place, count: u32) {
        let canonical = self.places.layout.canonical(rank, place);
        if !self.places.layout.writable(canonical) {
            let message = format!(
                "{} writes {}, but out of place the input belongs to the caller",
                at.name(),
                place_range(RankId::from(rank), place, count)
            );
            self.findings.add(
                Diagnostic::error("V119", message)
                    .help("work in the output or in scratch, or offer the program for in-place calls only"),
                vec![(at.location, String::new())],
            );
        }
    }

    fn dependencies(&mut self, at: &At<'a>) {
        let blocks = &self.program.ranks[at.rank as usize].threadblocks;
        for wait in &at.operation.waits_for {
            let Some(block) = blocks.get(wait.threadblock as usize) else {
                let message = format!(
                    "{} waits for threadblock {}, but its rank has {} threadblocks",
                    at.name(),
                    wait.threadblock,
                    blocks.len()
                );
                self.fault(at, "V106", message);
                continue;
            };
            let Threadblock { id, operations, .. } = block;
            if operations.len() <= wait.operation as usize {
                let message = format!(
                    "{} waits for instruction {} of threadblock {id}, which has {} instructions",
                    at.name(),
                    wait.operation,
                    operations.len()
                );
                self.fault(at, "V106", message);
            } else if wait.threadblock == at.tb && wait.operation == at.top {
                self.fault(at, "V106", format!("{} waits for itself", at.name()));
            }
        }
    }

    fn barrier(&mut self, at: &At<'a>, barrier: u32, threadblocks: &[u32]) {
        let blocks = self.program.ranks[at.rank as usize].threadblocks.len();
        let mut sorted = threadblocks.to_vec();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        if twice || sorted.last().is_some_and(|&last| blocks <= last as usize) || !sorted.contains(&at.tb) {
            let message = format!(
                "{} waits at barrier {barrier} among threadblocks {threadblocks:?}, which must be different ones of the {blocks} of \
                 its rank, its own among them",
                at.name()
            );
            self.fault(at, "V108", message);
        }
    }
}

/// Unrolls loops, resolves connections and dependencies.
struct Unroller<'a> {
    program: &'a Program,
    tbs: Vec<Tb>,
    ops: Vec<FlatOp<'a>>,
    conns: Vec<Conn>,
    known: FxHashMap<(u32, u32, u32), u32>,
    rank_tbs: Vec<u32>,
    top_last: Vec<u32>,
    publisher: Vec<u32>,
    wide_messages: bool,
    fatal: bool,
    /// What the threadblock used last: peer, channel, connection; for sending and receiving.
    recent: [Option<(Connection, u32)>; 2],
}

/// Where the unroller is.
#[derive(Clone, Copy)]
struct Cursor {
    rank: u32,
    tb: u32,
    top: u32,
    turn: u32,
}

impl<'a> Unroller<'a> {
    fn new(program: &'a Program) -> Self {
        Self {
            program,
            tbs: Vec::new(),
            ops: Vec::with_capacity(program.operation_count()),
            conns: Vec::new(),
            known: FxHashMap::default(),
            rank_tbs: vec![0],
            top_last: Vec::new(),
            publisher: Vec::new(),
            wide_messages: false,
            fatal: false,
            recent: [None; 2],
        }
    }

    fn rank(&mut self, rank: u32, of_rank: &'a RankProgram, findings: &mut Findings) {
        for block in &of_rank.threadblocks {
            let tb = index(self.tbs.len());
            let (first, tops) = (index(self.ops.len()), index(self.top_last.len()));
            self.recent = [None; 2];
            for (top, operation) in (0_u32..).zip(&block.operations) {
                self.operation(Cursor { rank, tb, top, turn: 0 }, operation, NONE, &mut 0, findings);
                self.top_last.push(index(self.ops.len()) - 1);
            }
            let mut next = NONE;
            let mut publishers: Vec<u32> = Vec::with_capacity(block.operations.len());
            for (top, operation) in block.operations.iter().enumerate().rev() {
                if operation.publishes {
                    next = index(top);
                }
                publishers.push(next);
            }
            self.publisher.extend(publishers.into_iter().rev());
            self.tbs.push(Tb { rank, id: block.id, span: block.span, ops: first..index(self.ops.len()), tops });
        }
        self.rank_tbs.push(index(self.tbs.len()));
        self.published(rank, of_rank, findings);
    }

    /// Every dependency must be published some day.
    fn published(&mut self, rank: u32, of_rank: &RankProgram, findings: &mut Findings) {
        let first = self.rank_tbs[rank as usize];
        let ops = first as usize..self.tbs.len();
        let mut last = (NONE, NONE, NONE);
        for tb in ops {
            for flat in &self.ops[self.tbs[tb].ops.start as usize..self.tbs[tb].ops.end as usize] {
                for wait in &flat.op.waits_for {
                    let target = &self.tbs[(first + wait.threadblock) as usize];
                    let known = (flat.tb, flat.top, flat.inner);
                    if self.publisher[(target.tops + wait.operation) as usize] == NONE && last != known {
                        last = known;
                        let id = of_rank.threadblocks[wait.threadblock as usize].id;
                        let location = Location {
                            rank: RankId::from(rank),
                            threadblock: Some(self.tbs[tb].id),
                            operation: Some(flat.top),
                            inner: (flat.inner != NONE).then_some(flat.inner),
                            span: flat.op.span,
                        };
                        let awaited =
                            &of_rank.threadblocks[wait.threadblock as usize].operations[wait.operation as usize];
                        let awaited = Location {
                            threadblock: Some(id),
                            operation: Some(wait.operation),
                            inner: None,
                            span: awaited.span,
                            ..location
                        };
                        findings.add(
                            Diagnostic::error("V107", format!("{location} waits for ever: {awaited} does not publish that it is done, nor does anything after it"))
                                .help("let the instruction publish (MSCCL: hasdep=\"1\")"),
                            vec![(location, String::new()), (awaited, "does not publish".to_owned())],
                        );
                        self.fatal = true;
                    }
                }
            }
        }
    }

    fn operation(
        &mut self,
        cursor: Cursor,
        operation: &'a Operation,
        inner: u32,
        next: &mut u32,
        findings: &mut Findings,
    ) {
        let Cursor { rank: _, tb, top, turn } = cursor;
        let mut flat = FlatOp { op: operation, tb, top, inner, turn, send: NONE, receive: NONE, waits: true };
        match &operation.kind {
            OperationKind::Move { receive, send, count, .. } => {
                if let Some(connection) = receive {
                    flat.receive = self.connection(cursor, *connection, false, operation, inner, findings);
                }
                if let Some(connection) = send {
                    flat.send = self.connection(cursor, *connection, true, operation, inner, findings);
                }
                self.wide_messages |= 1 < *count && (receive.is_some() || send.is_some());
                self.ops.push(flat);
            }
            OperationKind::Loop { times, body } => {
                self.ops.push(flat);
                let first = *next;
                // An empty body is nothing to do, however often.
                let turns = if body.is_empty() { 0 } else { *times };
                for turn in 0..turns {
                    *next = first;
                    for operation in body {
                        let inner = *next;
                        *next += 1;
                        self.operation(Cursor { turn, ..cursor }, operation, inner, next, findings);
                    }
                }
                flat.waits = false;
                self.ops.push(flat);
            }
            OperationKind::Nop
            | OperationKind::Reduce { .. }
            | OperationKind::Put { .. }
            | OperationKind::Get { .. }
            | OperationKind::Signal { .. }
            | OperationKind::Wait { .. }
            | OperationKind::Barrier { .. } => self.ops.push(flat),
        }
    }

    fn connection(
        &mut self,
        cursor: Cursor,
        connection: Connection,
        sends: bool,
        operation: &Operation,
        inner: u32,
        findings: &mut Findings,
    ) -> u32 {
        if let Some((recent, number)) = self.recent[usize::from(sends)]
            && recent == connection
        {
            return number;
        }
        let peer = connection.peer.number();
        let (src, dst) = if sends { (cursor.rank, peer) } else { (peer, cursor.rank) };
        let fresh = index(self.conns.len());
        let number = *self.known.entry((src, dst, connection.channel)).or_insert(fresh);
        if number == fresh {
            let channel = connection.channel;
            self.conns.push(Conn { src, dst, channel, sender: NONE, receiver: NONE });
        }
        let conn = &mut self.conns[number as usize];
        let owner = if sends { &mut conn.sender } else { &mut conn.receiver };
        if *owner == NONE {
            *owner = cursor.tb;
        } else if *owner != cursor.tb {
            let first = &self.tbs[*owner as usize];
            let location = Location {
                rank: RankId::from(cursor.rank),
                threadblock: self.program.ranks[cursor.rank as usize]
                    .threadblocks
                    .get((cursor.tb - self.rank_tbs[cursor.rank as usize]) as usize)
                    .map(|block| block.id),
                operation: Some(cursor.top),
                inner: (inner != NONE).then_some(inner),
                span: operation.span,
            };
            let other =
                Location { threadblock: Some(first.id), operation: None, inner: None, span: first.span, ..location };
            let verb = if sends { "sends" } else { "receives" };
            findings.add(
                Diagnostic::error(
                    "V104",
                    format!(
                        "{location} {verb} on r{src} -> r{dst} channel {}, and so does {other}",
                        connection.channel
                    ),
                )
                .note("each end of a connection belongs to one threadblock; two would race for its messages")
                .help("use another channel, or one threadblock"),
                vec![(location, String::new()), (other, format!("{verb} on the same connection"))],
            );
            self.fatal = true;
        }
        self.recent[usize::from(sends)] = Some((connection, number));
        number
    }
}

/// Indices were measured before anything was unrolled.
pub(super) fn index(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(NONE)
}

/// The k-th send of a connection must be as large as its k-th receive, and there must be as many.
fn pairing(flat: &Flat<'_>, findings: &mut Findings) -> bool {
    let mut sends: Vec<Vec<u32>> = vec![Vec::new(); flat.conns.len()];
    let mut receives = sends.clone();
    for (number, op) in (0_u32..).zip(&flat.ops) {
        if op.send != NONE {
            sends[op.send as usize].push(number);
        }
        if op.receive != NONE {
            receives[op.receive as usize].push(number);
        }
    }
    let count = |op: u32| match flat.ops[op as usize].op.kind {
        OperationKind::Move { count, .. } => count,
        _ => 0,
    };
    let mut fatal = false;
    for ((conn, sends), receives) in flat.conns.iter().zip(&sends).zip(&receives) {
        let name = format!("r{} -> r{} channel {}", conn.src, conn.dst, conn.channel);
        let unequal = sends.iter().zip(receives).position(|(&send, &receive)| count(send) != count(receive));
        if let Some(k) = unequal {
            let (send, receive) = (sends[k], receives[k]);
            let (from, to) = (flat.location(send), flat.location(receive));
            findings.add(
                Diagnostic::error(
                    "V105",
                    format!("{from} sends {} slots, but {to} receives {}", count(send), count(receive)),
                )
                .note(format!("they are message {k} of {name}; the k-th send pairs with the k-th receive")),
                vec![(from, "sends".to_owned()), (to, "receives".to_owned())],
            );
            fatal = true;
        } else if sends.len() != receives.len() {
            let (what, lone) = if receives.len() < sends.len() {
                ("is sent but never received", sends[receives.len()])
            } else {
                ("is received but never sent", receives[sends.len()])
            };
            let location = flat.location(lone);
            findings.add(
                Diagnostic::error("V105", format!("the message of {location} {what}")).note(format!(
                    "{name} has {} sends and {} receives",
                    sends.len(),
                    receives.len()
                )),
                vec![(location, what.to_owned())],
            );
            fatal = true;
        }
    }
    fatal
}

/// A wait must be reachable by the signals that its counter gets.
fn counters(flat: &Flat<'_>, findings: &mut Findings) -> bool {
    let mut totals: FxHashMap<(u32, u32), (u64, u32)> = FxHashMap::default();
    let mut waited: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for (number, op) in (0_u32..).zip(&flat.ops) {
        if let OperationKind::Signal { peer, counter } = op.op.kind {
            totals.entry((peer.number(), counter)).or_insert((0, number)).0 += 1;
        }
    }
    let mut fatal = false;
    for (number, op) in (0_u32..).zip(&flat.ops) {
        if let OperationKind::Wait { counter, .. } = op.op.kind {
            let key = (flat.tbs[op.tb as usize].rank, counter);
            let value = waited_value(op);
            let total = totals.get(&key).map_or(0, |&(total, _)| total);
            let highest = waited.entry(key).or_default();
            if total < value && *highest <= total {
                let location = flat.location(number);
                findings.add(
                    Diagnostic::error(
                        "V112",
                        format!("{location} waits for counter {counter} to reach {value}, but it gets {total} signals"),
                    ),
                    vec![(location, String::new())],
                );
                fatal = true;
            }
            *highest = value.max(*highest);
        }
    }
    let mut unused: Vec<_> = totals
        .iter()
        .filter(|(key, (total, _))| waited.get(key).is_none_or(|&highest| highest < *total))
        .map(|(&(rank, counter), &(total, first))| (first, rank, counter, total))
        .collect();
    unused.sort_unstable();
    for (first, rank, counter, total) in unused {
        let highest = waited.get(&(rank, counter)).copied().unwrap_or(0);
        let location = flat.location(first);
        findings.add(
            Diagnostic::warning(
                "V113",
                format!("counter {counter} of r{rank} gets {total} signals, but nobody waits for more than {highest}"),
            )
            .note("what is left over disturbs the next call where counters live on"),
            vec![(location, "the first signal".to_owned())],
        );
    }
    fatal
}

/// What a wait waits for at its turn.
pub(super) fn waited_value(op: &FlatOp<'_>) -> u64 {
    match op.op.kind {
        OperationKind::Wait { value, stride, .. } => value.saturating_add(stride.saturating_mul(u64::from(op.turn))),
        _ => 0,
    }
}

/// All threadblocks of a barrier agree on who takes part, and come equally often.
fn barriers(flat: &Flat<'_>, findings: &mut Findings) -> bool {
    struct Seen {
        first: u32,
        participants: Vec<u32>,
        /// How often each participant comes, and its first arrival.
        times: Vec<u64>,
        disagree: bool,
    }
    let mut seen: FxHashMap<(u32, u32), usize> = FxHashMap::default();
    let mut list: Vec<Seen> = Vec::new();
    for (number, op) in (0_u32..).zip(&flat.ops) {
        let OperationKind::Barrier { barrier, threadblocks } = &op.op.kind else { continue };
        let rank = flat.tbs[op.tb as usize].rank;
        let at = *seen.entry((rank, *barrier)).or_insert(list.len());
        if at == list.len() {
            let times = vec![0; threadblocks.len()];
            list.push(Seen { first: number, participants: threadblocks.clone(), times, disagree: false });
        }
        let own = op.tb - flat.rank_tbs[rank as usize];
        let entry = &mut list[at];
        entry.disagree |= entry.participants.len() != threadblocks.len()
            || threadblocks.iter().any(|tb| !entry.participants.contains(tb));
        match entry.participants.iter().position(|&tb| tb == own) {
            Some(position) => entry.times[position] += 1,
            None => entry.disagree = true,
        }
    }
    let mut fatal = false;
    for Seen { first, participants, times, disagree } in list {
        let uneven = times.windows(2).any(|pair| pair[0] != pair[1]);
        if disagree || uneven {
            let location = flat.location(first);
            let why = if disagree {
                "its threadblocks do not agree on who takes part".to_owned()
            } else {
                let parts: Vec<_> =
                    participants.iter().zip(&times).map(|(tb, times)| format!("{tb} ({times} times)")).collect();
                format!("threadblocks come unequally often: {}", parts.join(", "))
            };
            findings.add(
                Diagnostic::error("V108", format!("the barrier of {location} never opens for all: {why}")),
                vec![(location, String::new())],
            );
            fatal = true;
        }
    }
    fatal
}
