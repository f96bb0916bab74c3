//! From flows to pieces: what one instruction at each end moves.

use std::ops::Range;

use rondo_ir::collective::{Buffer, Layout, Place};
use rondo_ir::index::{FlowId, GroupId, RankId};
use rondo_ir::problem::Problem;
use rondo_ir::schedule::{Flow, FlowOp, PathKind, Schedule};
use rustc_hash::FxHashMap;

use super::{LowerError, place_name};

/// How transfers are spread over channels. Channel = (round · `peer_classes` + class) · `lanes` + lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The j-th transfer of a connection is in round j mod `rounds`.
    pub rounds: u32,
    /// The class of (src, dst) is (dst − src) mod n mod `peer_classes`.
    pub peer_classes: u32,
    /// A transfer is cut over so many lanes.
    pub lanes: u32,
}

impl Spread {
    pub fn channels(self) -> u64 {
        u64::from(self.rounds) * u64::from(self.peer_classes) * u64::from(self.lanes)
    }

    fn channel(self, round: u32, class: u32, lane: u32) -> u64 {
        let round = u64::from(round % self.rounds);
        let class = u64::from(class % self.peer_classes);
        (round * u64::from(self.peer_classes) + class) * u64::from(self.lanes) + u64::from(lane)
    }
}

/// Contiguous slots that go from one rank to another (or within one) in a step. Ranks are positions of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfer {
    /// Orders reductions; see the module's page.
    source: RankId,
    src: u32,
    dst: u32,
    src_place: Place,
    dst_place: Place,
    count: u32,
    op: FlowOp,
}

/// All transfers of a schedule, step after step.
pub(super) struct Transfers {
    ranks: u32,
    transfers: Vec<Transfer>,
    /// Ranges of `transfers` whose flows run at once.
    steps: Vec<Range<usize>>,
}

/// What one instruction moves. Ranks are positions of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub src: u32,
    pub dst: u32,
    pub src_place: Place,
    pub dst_place: Place,
    pub count: u32,
    pub op: FlowOp,
    pub channel: u32,
    /// Channel of local work that cannot be done by the threadblock of the connection.
    pub local_channel: u32,
    pub step: u32,
}

/// All pieces in the order of their numbers, and which ones concern a rank.
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    /// Per rank, numbers of its pieces in order.
    of_rank: Vec<Vec<u32>>,
    channels: u32,
}

impl Pieces {
    pub fn of_rank(&self, position: u32) -> impl Iterator<Item = &Piece> + '_ {
        self.of_rank[position as usize].iter().map(|&index| &self.pieces[index as usize])
    }

    pub fn channels(&self) -> u32 {
        self.channels
    }
}

impl Transfers {
    /// Reads, checks, sorts and merges the flows.
    ///
    /// With explicit dependencies there are no barriers, and the order of flow numbers is one that they allow: then every
    /// flow is a step of its own.
    pub fn collect(problem: &Problem, schedule: &Schedule, profile: &'static str) -> Result<Self, LowerError> {
        let group = GroupId::new(0);
        let layout = problem.layout(group, schedule.chunks[0])?;
        let mut this = Self {
            ranks: layout.collective().ranks(),
            transfers: Vec::with_capacity(schedule.flow_count()),
            steps: Vec::with_capacity(schedule.steps.len()),
        };
        let mut of_step = Vec::new();
        let mut number = 0;
        for step in 0..schedule.steps.len() {
            for flow in schedule.flows(rondo_ir::index::StepId::new(step)) {
                let id = FlowId::new(number);
                number += 1;
                match flow.path.kind() {
                    PathKind::Local | PathKind::Route(_) => {}
                    PathKind::Multicast(_) => return Err(LowerError::Multicast { flow: id, profile }),
                    PathKind::Aggregate(_) => return Err(LowerError::Aggregate { flow: id, profile }),
                }
                of_step.push(check(problem, schedule, layout, id, &flow)?);
                if schedule.dependencies.is_some() {
                    this.push_step(&mut of_step);
                }
            }
            this.push_step(&mut of_step);
        }
        Ok(this)
    }

    fn push_step(&mut self, of_step: &mut Vec<Transfer>) {
        if of_step.is_empty() {
            return;
        }
        of_step.sort_unstable_by_key(|t| (t.source, t.dst, t.src_place, t.dst_place, t.op, t.count));
        let start = self.transfers.len();
        for transfer in of_step.drain(..) {
            if start < self.transfers.len()
                && let Some(last) = self.transfers.last_mut()
                && (last.src, last.dst, last.op) == (transfer.src, transfer.dst, transfer.op)
                && follows(last.src_place, last.count, transfer.src_place)
                && follows(last.dst_place, last.count, transfer.dst_place)
            {
                last.count += transfer.count;
            } else {
                self.transfers.push(transfer);
            }
        }
        self.steps.push(start..self.transfers.len());
    }

    /// Cuts the transfers into pieces of at most `limit` slots, about equal, and gives them channels.
    pub fn cut(&self, spread: Spread, limit: u32) -> Pieces {
        let mut pieces = Vec::with_capacity(self.transfers.len());
        let mut channels = Vec::with_capacity(self.transfers.len());
        // How many steps have used a connection so far, and the last one.
        let mut turns: FxHashMap<(u32, u32), (u32, usize)> = FxHashMap::default();
        for (step, range) in self.steps.iter().enumerate() {
            for transfer in &self.transfers[range.clone()] {
                let turn = turns.entry((transfer.src, transfer.dst)).or_insert((0, step));
                if turn.1 != step {
                    *turn = (turn.0.wrapping_add(1), step);
                }
                let class = (transfer.dst + self.ranks - transfer.src) % self.ranks;
                let lanes = spread.lanes.min(transfer.count);
                let mut before = 0;
                for lane in 0..lanes {
                    let share = transfer.count / lanes + u32::from(lane < transfer.count % lanes);
                    let parts = share.div_ceil(limit);
                    for part in 0..parts {
                        let count = share / parts + u32::from(part < share % parts);
                        // Additions to one place stay in one threadblock, those to others need not.
                        let place = transfer.dst_place.slot() as usize + before as usize;
                        let local_round = u32::try_from((step + place) % spread.rounds as usize).unwrap_or(0);
                        channels.push((spread.channel(turn.0, class, lane), spread.channel(local_round, 0, lane)));
                        pieces.push(Piece {
                            src: transfer.src,
                            dst: transfer.dst,
                            src_place: transfer.src_place.offset(before),
                            dst_place: transfer.dst_place.offset(before),
                            count,
                            op: transfer.op,
                            channel: 0,
                            local_channel: 0,
                            step: u32::try_from(step).unwrap_or(u32::MAX),
                        });
                        before += count;
                    }
                }
            }
        }
        // Channels without a transfer between ranks leave no gap.
        let mut used: Vec<u64> =
            pieces.iter().zip(&channels).filter(|(p, _)| p.src != p.dst).map(|(_, c)| c.0).collect();
        used.sort_unstable();
        used.dedup();
        let dense = |channel: u64| {
            let place = used.partition_point(|&other| other < channel).min(used.len().saturating_sub(1));
            u32::try_from(place).unwrap_or(u32::MAX)
        };
        let mut of_rank = vec![Vec::new(); self.ranks as usize];
        for (index, (piece, &(channel, local))) in pieces.iter_mut().zip(&channels).enumerate() {
            piece.channel = dense(channel);
            // Threadblocks without a peer use no channel: only which ones are alike matters.
            piece.local_channel = u32::try_from(local).unwrap_or(u32::MAX);
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            of_rank[piece.src as usize].push(index);
            if piece.src != piece.dst {
                of_rank[piece.dst as usize].push(index);
            }
        }
        Pieces { pieces, of_rank, channels: u32::try_from(used.len()).unwrap_or(u32::MAX).max(1) }
    }
}

fn follows(place: Place, count: u32, next: Place) -> bool {
    place.buffer() == next.buffer() && u64::from(place.slot()) + u64::from(count) == u64::from(next.slot())
}

/// The flow as a transfer, if all that it names exists.
fn check(
    problem: &Problem,
    schedule: &Schedule,
    layout: Layout<'_>,
    id: FlowId,
    flow: &Flow,
) -> Result<Transfer, LowerError> {
    let malformed = |what: String| LowerError::Malformed { flow: id, what };
    let group = GroupId::new(0);
    if flow.group != group {
        return Err(malformed(format!("group {}", flow.group)));
    }
    let position = |rank: RankId| {
        if problem.rank_count() <= rank.index() {
            return Err(malformed(format!("rank {rank}")));
        }
        problem.position(group, rank).ok_or_else(|| malformed(format!("rank {rank} in the group")))
    };
    let (src, dst) = (position(flow.src)?, position(flow.dst)?);
    if flow.count == 0 {
        return Err(malformed("no slot at all".to_owned()));
    }
    if (src == dst) != flow.path.is_local() {
        return Err(malformed(
            if src == dst { "a path within a rank" } else { "local work between two ranks" }.to_owned(),
        ));
    }
    for (rank, position, place) in [(flow.src, src, flow.src_place), (flow.dst, dst, flow.dst_place)] {
        let end = u64::from(place.slot()) + u64::from(flow.count);
        let fits = match place.buffer() {
            Buffer::Scratch => end <= u64::from(schedule.scratch_slots(group, position)),
            Buffer::Input | Buffer::Output => {
                end < u64::from(Place::SLOT_LIMIT)
                    && layout.contains(position, place)
                    && layout.contains(position, place.offset(flow.count - 1))
            }
        };
        if !fits {
            return Err(malformed(place_name(rank, place)));
        }
    }
    Ok(Transfer {
        source: flow.src,
        src,
        dst,
        src_place: flow.src_place,
        dst_place: flow.dst_place,
        count: flow.count,
        op: flow.op,
    })
}
