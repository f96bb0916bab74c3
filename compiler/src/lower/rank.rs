//! The program of one rank: phases of a step, staging, dependencies.

use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::index::{GroupId, RankId};
use rondo_ir::profile::RuntimeProfile;
use rondo_ir::program::{Connection, Operation, OperationKind, OperationRef, RankProgram, SourceSpan, Threadblock};
use rondo_ir::schedule::{FlowOp, Schedule};
use rustc_hash::FxHashMap;

use super::LowerError;
use super::pieces::{Piece, Pieces};

/// A rank's program with the figures that limits are about.
pub(super) struct Lowered {
    pub program: RankProgram,
    /// Most instructions of a threadblock.
    pub instructions: usize,
    pub total_instructions: usize,
    /// Most threadblocks that send, or that receive, on one channel.
    pub threadblocks_per_channel: usize,
    /// Threadblocks that others wait for, if ids have to be given away with care; else 0.
    pub waited_for: usize,
    pub staged_slots: u32,
}

/// What a threadblock is for; their order is that of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    channel: u32,
    work: Work,
    peer: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Work {
    Local,
    Send,
    Receive,
}

/// Lowers the pieces of one rank.
pub(super) fn lower_rank(
    layout: Layout<'_>,
    schedule: &Schedule,
    pieces: &Pieces,
    position: u32,
    profile: &'static RuntimeProfile,
) -> Result<Lowered, LowerError> {
    let pieces: Vec<Piece> = pieces.of_rank(position).copied().collect();
    let steps: Vec<&[Piece]> = pieces.chunk_by(|a, b| a.step == b.step).collect();
    let own_scratch = schedule.scratch_slots(GroupId::new(0), position);
    let mut slots = Slots::new(layout, position, own_scratch);

    // First which pieces are staged, so that the size of the staging pools is known: two pools that take turns, so that
    // a step need not wait until the one before has emptied its pool.
    let mut staged = Vec::with_capacity(pieces.len());
    let mut pool = 0_u64;
    let mut staging_steps = 0_u32;
    for step in &steps {
        let start = staged.len();
        slots.stamp(step);
        staged.extend(step.iter().map(|piece| slots.must_stage(piece, profile.fused_receives)));
        let needed: u64 = step.iter().zip(&staged[start..]).filter(|(_, s)| **s).map(|(p, _)| u64::from(p.count)).sum();
        pool = pool.max(needed);
        staging_steps += u32::from(0 < needed);
    }
    let staged_slots = pool * u64::from(staging_steps.min(2));
    let given = u64::from(own_scratch) + staged_slots;
    if u64::from(Place::SLOT_LIMIT) <= given {
        return Err(LowerError::Scratch { rank: RankId::from(position), given, limit: Place::SLOT_LIMIT - 1 });
    }
    let narrow = |n: u64| u32::try_from(n).expect("below the limit of a place");
    let (pool, staged_slots) = (narrow(pool), narrow(staged_slots));

    let mut build = Build::new(slots, own_scratch + staged_slots);
    let mut staging_step = 0;
    let mut staged = staged.iter().copied();
    for step in steps {
        let decisions: Vec<bool> = staged.by_ref().take(step.len()).collect();
        let base = own_scratch + (staging_step % 2) * pool;
        staging_step += u32::from(decisions.contains(&true));
        build.step(step, &decisions, base, profile.fused_receives);
    }
    Ok(build.finish(staged_slots, profile))
}

/// Dense numbers of canonical places, and which ones the current step reads and writes.
struct Slots<'a> {
    layout: Layout<'a>,
    position: u32,
    /// First number of input, output and scratch.
    bases: [usize; 3],
    /// Step stamp of the last step that reads, and that writes, with how many writers.
    reads: Vec<u32>,
    writes: Vec<(u32, u32)>,
    stamp: u32,
}

impl<'a> Slots<'a> {
    fn new(layout: Layout<'a>, position: u32, scratch: u32) -> Self {
        let width = layout.slots(position, Buffer::Input).max(layout.slots(position, Buffer::Output)) as usize;
        let len = 2 * width + scratch as usize;
        Self {
            layout,
            position,
            bases: [0, width, 2 * width],
            reads: vec![0; len],
            writes: vec![(0, 0); len],
            stamp: 0,
        }
    }

    fn numbers(&self, place: Place, count: u32) -> impl Iterator<Item = usize> + use<'_, 'a> {
        (0..count).map(move |i| {
            let place = self.layout.canonical(self.position, place.offset(i));
            let base = match place.buffer() {
                Buffer::Input => self.bases[0],
                Buffer::Output => self.bases[1],
                Buffer::Scratch => self.bases[2],
            };
            base + place.slot() as usize
        })
    }

    /// Notes what a step reads and writes.
    fn stamp(&mut self, step: &[Piece]) {
        self.stamp += 1;
        let stamp = self.stamp;
        for piece in step {
            if piece.src == self.position {
                let numbers: Vec<_> = self.numbers(piece.src_place, piece.count).collect();
                for number in numbers {
                    self.reads[number] = stamp;
                }
            }
            if piece.dst == self.position {
                let numbers: Vec<_> = self.numbers(piece.dst_place, piece.count).collect();
                for number in numbers {
                    let (last, writers) = &mut self.writes[number];
                    *writers = if *last == stamp { *writers + 1 } else { 1 };
                    *last = stamp;
                }
            }
        }
    }

    fn is_written(&self, place: Place, count: u32) -> bool {
        self.numbers(place, count).any(|number| self.writes[number].0 == self.stamp)
    }

    fn is_written_twice(&self, place: Place, count: u32) -> bool {
        self.numbers(place, count).any(|number| self.writes[number].0 == self.stamp && 1 < self.writes[number].1)
    }

    fn is_read(&self, place: Place, count: u32) -> bool {
        self.numbers(place, count).any(|number| self.reads[number] == self.stamp)
    }

    /// Whether the piece needs scratch: as a receive, or as local work whose source is overwritten.
    fn must_stage(&self, piece: &Piece, fused: bool) -> bool {
        if piece.dst != self.position {
            return false;
        }
        if piece.src == self.position {
            return self.is_written(piece.src_place, piece.count);
        }
        (piece.op == FlowOp::Reduce && !fused)
            || self.is_read(piece.dst_place, piece.count)
            || self.is_written_twice(piece.dst_place, piece.count)
    }
}

/// An operation of a threadblock under construction.
struct Draft {
    kind: OperationKind,
    /// (threadblock, operation).
    waits_for: Vec<(u32, u32)>,
    publishes: bool,
    /// Index in [`Block::clocks`]: what is known to be done once this operation is.
    clock: u32,
}

/// A threadblock under construction.
struct Block {
    key: Key,
    drafts: Vec<Draft>,
    /// Per other threadblock, how many of its operations are known to be done; a new one after each wait.
    clocks: Vec<Vec<u32>>,
}

/// Who touched a slot last.
#[derive(Default)]
struct Accesses {
    writer: Option<(u32, u32)>,
    /// Since the last write; the last one of each threadblock.
    readers: Vec<(u32, u32)>,
}

struct Build<'a> {
    slots: Slots<'a>,
    accesses: Vec<Accesses>,
    blocks: Vec<Block>,
    block_of: FxHashMap<Key, u32>,
    /// Reused: per threadblock, operations to wait for, and the threadblocks concerned.
    latest: Vec<u32>,
    concerned: Vec<u32>,
}

impl<'a> Build<'a> {
    fn new(slots: Slots<'a>, scratch: u32) -> Self {
        let len = slots.bases[2] + scratch as usize;
        Self {
            slots,
            accesses: std::iter::repeat_with(Accesses::default).take(len).collect(),
            blocks: Vec::new(),
            block_of: FxHashMap::default(),
            latest: Vec::new(),
            concerned: Vec::new(),
        }
    }

    /// One step in its three phases. `base` is the first slot of the step's staging pool.
    fn step(&mut self, step: &[Piece], staged: &[bool], base: u32, fused: bool) {
        self.slots.stamp(step);
        let position = self.slots.position;
        let mut free = base;
        let mut stage = |count: u32| {
            let place = Place::scratch(free);
            free += count;
            place
        };
        // Phase A; what is left for phase C: (piece, source).
        let mut last: Vec<(&Piece, Place)> = Vec::new();
        let mut copies: Vec<(&Piece, Place)> = Vec::new();
        for (piece, &staged) in step.iter().zip(staged) {
            let count = piece.count;
            if piece.src == position && piece.dst == position {
                if staged {
                    let place = stage(count);
                    copies.push((piece, place));
                    last.push((piece, place));
                } else {
                    last.push((piece, piece.src_place));
                }
            } else if piece.src == position {
                let kind = OperationKind::Move {
                    receive: None,
                    local: Some(piece.src_place),
                    store: None,
                    send: Some(Connection { peer: RankId::from(piece.dst), channel: piece.channel }),
                    count,
                };
                let key = Key { channel: piece.channel, work: Work::Send, peer: piece.dst };
                self.push(key, kind, &[piece.src_place], None, count);
            } else {
                let receive = Some(Connection { peer: RankId::from(piece.src), channel: piece.channel });
                let key = Key { channel: piece.channel, work: Work::Receive, peer: piece.src };
                let (store, local) = if staged {
                    let place = stage(count);
                    last.push((piece, place));
                    (place, None)
                } else {
                    debug_assert!(fused || piece.op == FlowOp::Copy);
                    (piece.dst_place, (piece.op == FlowOp::Reduce).then_some(piece.dst_place))
                };
                let kind = OperationKind::Move { receive, local, store: Some(store), send: None, count };
                self.push(key, kind, local.as_slice(), Some(store), count);
            }
        }
        for (piece, place) in copies {
            let key = Key { channel: piece.local_channel, work: Work::Local, peer: position };
            let kind = copy(piece.src_place, place, piece.count);
            self.push(key, kind, &[piece.src_place], Some(place), piece.count);
        }
        for (piece, source) in last {
            let alone = !self.slots.is_written_twice(piece.dst_place, piece.count);
            let key = if piece.src != position && alone {
                Key { channel: piece.channel, work: Work::Receive, peer: piece.src }
            } else {
                Key { channel: piece.local_channel, work: Work::Local, peer: position }
            };
            let (kind, reads) = match piece.op {
                FlowOp::Copy => (copy(source, piece.dst_place, piece.count), vec![source]),
                FlowOp::Reduce => (
                    OperationKind::Reduce { sources: vec![source], dst: piece.dst_place, count: piece.count },
                    vec![source, piece.dst_place],
                ),
            };
            self.push(key, kind, &reads, Some(piece.dst_place), piece.count);
        }
    }

    /// Appends an operation with the dependencies that its accesses ask for.
    fn push(&mut self, key: Key, kind: OperationKind, reads: &[Place], write: Option<Place>, count: u32) {
        let block = self.block(key);
        let number = u32::try_from(self.blocks[block as usize].drafts.len()).expect("fewer than 2^32 operations");
        let mut latest = std::mem::take(&mut self.latest);
        let mut concerned = std::mem::take(&mut self.concerned);
        let mut note = |(other, operation): (u32, u32)| {
            if other != block {
                let entry = &mut latest[other as usize];
                if *entry == 0 {
                    concerned.push(other);
                }
                *entry = (*entry).max(operation + 1);
            }
        };
        for &place in reads {
            for slot in self.slots.numbers(place, count) {
                self.accesses[slot].writer.into_iter().for_each(&mut note);
            }
        }
        if let Some(place) = write {
            for slot in self.slots.numbers(place, count) {
                let Accesses { writer, readers } = &self.accesses[slot];
                writer.iter().chain(readers).copied().for_each(&mut note);
            }
        }
        concerned.sort_unstable();
        let waits_for = self.wait(block, &latest, &concerned);
        for &other in &concerned {
            latest[other as usize] = 0;
        }
        concerned.clear();
        (self.latest, self.concerned) = (latest, concerned);

        let this = &mut self.blocks[block as usize];
        let clock = u32::try_from(this.clocks.len() - 1).expect("at most one clock an operation");
        this.drafts.push(Draft { kind, waits_for, publishes: false, clock });
        let me = (block, number);
        for &place in reads {
            for slot in self.slots.numbers(place, count) {
                let readers = &mut self.accesses[slot].readers;
                match readers.iter_mut().find(|reader| reader.0 == block) {
                    Some(reader) => *reader = me,
                    None => readers.push(me),
                }
            }
        }
        if let Some(place) = write {
            for slot in self.slots.numbers(place, count) {
                let accesses = &mut self.accesses[slot];
                accesses.writer = Some(me);
                accesses.readers.clear();
            }
        }
    }

    /// Which of the operations really have to be waited for: not those known to be done, nor those that another one
    /// waits for. Updates what the threadblock knows.
    fn wait(&mut self, block: u32, latest: &[u32], concerned: &[u32]) -> Vec<(u32, u32)> {
        let known = |clock: &[u32], other: u32| clock.get(other as usize).copied().unwrap_or(0);
        let clock_of = |blocks: &'_ [Block], other: u32| {
            let source = &blocks[other as usize];
            source.drafts[latest[other as usize] as usize - 1].clock as usize
        };
        let mine = self.blocks[block as usize].clocks.last().expect("there is always one");
        let open: Vec<u32> =
            concerned.iter().copied().filter(|&other| known(mine, other) < latest[other as usize]).collect();
        let waits: Vec<u32> = open
            .iter()
            .copied()
            .filter(|&other| {
                !open.iter().any(|&through| {
                    let clock = &self.blocks[through as usize].clocks[clock_of(&self.blocks, through)];
                    through != other && latest[other as usize] <= known(clock, other)
                })
            })
            .collect();
        if waits.is_empty() {
            return Vec::new();
        }
        let mut mine = mine.clone();
        let mut learn = |other: u32, done: u32| {
            let other = other as usize;
            if mine.len() <= other {
                mine.resize(other + 1, 0);
            }
            mine[other] = mine[other].max(done);
        };
        for &other in &waits {
            learn(other, latest[other as usize]);
            let clock = &self.blocks[other as usize].clocks[clock_of(&self.blocks, other)];
            for (third, &done) in clock.iter().enumerate() {
                learn(u32::try_from(third).unwrap_or(u32::MAX), done);
            }
        }
        self.blocks[block as usize].clocks.push(mine);
        for &other in &waits {
            self.blocks[other as usize].drafts[latest[other as usize] as usize - 1].publishes = true;
        }
        waits.into_iter().map(|other| (other, latest[other as usize] - 1)).collect()
    }

    fn block(&mut self, key: Key) -> u32 {
        *self.block_of.entry(key).or_insert_with(|| {
            self.blocks.push(Block { key, drafts: Vec::new(), clocks: vec![Vec::new()] });
            self.latest.push(0);
            u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 threadblocks")
        })
    }

    fn finish(self, staged_slots: u32, profile: &RuntimeProfile) -> Lowered {
        let mut blocks = self.blocks;
        let scratch_slots =
            u32::try_from(self.accesses.len() - self.slots.bases[2]).expect("below the limit of a place");
        if let Some(limit) = profile.fused_reduces {
            for block in &mut blocks {
                keep_reduces_apart(&mut block.drafts, limit);
            }
        }
        // Ids in the order of keys; where some ids cannot be waited for, those that are waited for come first.
        let is_target = |block: &Block| block.drafts.iter().any(|draft| draft.publishes);
        let careful = profile.waitable_threadblock.is_some_and(|last| (last as usize) < blocks.len().saturating_sub(1));
        let waited_for = if careful { blocks.iter().filter(|block| is_target(block)).count() } else { 0 };
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_unstable_by_key(|&index| (careful && !is_target(&blocks[index]), blocks[index].key));
        let mut new_id = vec![0; blocks.len()];
        for (id, &index) in order.iter().enumerate() {
            new_id[index] = u32::try_from(id).expect("fewer than 2^32 threadblocks");
        }
        let mut drafts: Vec<Vec<Draft>> = blocks.iter_mut().map(|block| std::mem::take(&mut block.drafts)).collect();
        let threadblocks: Vec<Threadblock> = order
            .iter()
            .map(|&index| Threadblock {
                id: new_id[index],
                operations: std::mem::take(&mut drafts[index])
                    .into_iter()
                    .map(|draft| {
                        let mut waits_for: Vec<_> = draft
                            .waits_for
                            .into_iter()
                            .map(|(block, operation)| OperationRef { threadblock: new_id[block as usize], operation })
                            .collect();
                        waits_for.sort_unstable();
                        Operation {
                            kind: draft.kind,
                            waits_for,
                            publishes: draft.publishes,
                            span: SourceSpan::default(),
                        }
                    })
                    .collect(),
                span: SourceSpan::default(),
            })
            .collect();
        let instructions = |tb: &Threadblock| tb.operations.iter().map(Operation::instruction_count).sum::<usize>();
        let mut ends: FxHashMap<(u32, Work), usize> = FxHashMap::default();
        for block in blocks.iter().filter(|block| block.key.work != Work::Local) {
            *ends.entry((block.key.channel, block.key.work)).or_default() += 1;
        }
        Lowered {
            instructions: threadblocks.iter().map(instructions).max().unwrap_or(0),
            total_instructions: threadblocks.iter().map(instructions).sum(),
            threadblocks_per_channel: ends.into_values().max().unwrap_or(0),
            waited_for,
            staged_slots,
            program: RankProgram { scratch_slots, threadblocks, span: SourceSpan::default() },
        }
    }
}

fn copy(src: Place, dst: Place, count: u32) -> OperationKind {
    OperationKind::Move { receive: None, local: Some(src), store: Some(dst), send: None, count }
}

/// Runtimes join consecutive reductions into one destination from one buffer: all sources are read first, the last count
/// holds for all, and at most `limit` may join. Where that would differ from doing one after the other, the earlier one
/// publishes, which keeps them apart.
fn keep_reduces_apart(drafts: &mut [Draft], limit: u32) {
    let mut joined = 1;
    for index in 1..drafts.len() {
        let (head, tail) = drafts.split_at_mut(index);
        let (earlier, later) = (&mut head[index - 1], &tail[0]);
        let apart = earlier.publishes || !later.waits_for.is_empty();
        let (
            OperationKind::Reduce { sources: before, dst: dst_before, count: count_before },
            OperationKind::Reduce { sources, dst, count },
        ) = (&earlier.kind, &later.kind)
        else {
            joined = 1;
            continue;
        };
        let (Some(before), Some(source)) = (before.last(), sources.first()) else { continue };
        if apart || dst_before != dst || before.buffer() != source.buffer() {
            joined = 1;
            continue;
        }
        let overlaps = source.buffer() == dst.buffer()
            && u64::from(source.slot()) < u64::from(dst.slot()) + u64::from(*count)
            && u64::from(dst.slot()) < u64::from(source.slot()) + u64::from(*count);
        if count_before != count || overlaps || limit <= joined {
            earlier.publishes = true;
            joined = 1;
        } else {
            joined += 1;
        }
    }
}
