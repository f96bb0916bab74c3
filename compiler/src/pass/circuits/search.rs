//! The cheapest sequence of configurations.

use rondo_ir::index::{DeviceId, PortId};
use rondo_ir::problem::Problem;
use rondo_ir::topology::{Configuration, Device, LegalConfigurations, Topology};
use rondo_ir::units::Time;
use rustc_hash::FxHashSet;

use super::Class;
use crate::cost;

/// Per step and configuration: the step's time without changes.
pub struct Costs {
    pub by_step: Vec<Vec<Option<Time>>>,
    /// The ports that it uses; empty unless changes may overlap steps.
    pub used: Vec<Vec<FxHashSet<(DeviceId, PortId)>>>,
    /// What runs directly before each step, and before the end; empty unless changes may overlap it.
    pub beside: Vec<Beside>,
}

/// What runs directly before a change.
pub enum Beside {
    /// Nothing: the schedule begins.
    Nothing,
    /// The step before.
    Step,
    /// A step of local work, so long.
    Local(Time),
}

impl Costs {
    /// The configurations under which a step costs what it costs under the initial one.
    pub fn as_initial(&self, step: usize) -> Vec<usize> {
        let row = &self.by_step[step];
        let same = |&at: &usize| row[0].is_some() && row[at] == row[0];
        (0..row.len()).filter(same).collect()
    }
}

/// A sequence of configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Of the whole schedule, changes and restoring included, local steps not.
    pub time: Time,
    /// Changes on the way.
    pub changes: usize,
    /// Per step.
    pub configurations: Vec<usize>,
}

/// The settings that lead from one configuration to another, each a change of all its devices at once; no round if they are
/// equal. `None` if a rotor cannot get there.
pub fn rounds(
    topology: &Topology,
    from: &[Configuration],
    to: &[Configuration],
) -> Option<Vec<Vec<(DeviceId, Configuration)>>> {
    let mut rounds: Vec<Vec<(DeviceId, Configuration)>> = Vec::new();
    for (index, device) in topology.devices().iter().enumerate().filter(|&(index, _)| from[index] != to[index]) {
        let way = match &device.legal {
            LegalConfigurations::Cycle { configurations } => {
                let at = |wanted: &Configuration| configurations.iter().position(|set| set == wanted);
                let (first, last) = (at(&from[index])?, at(&to[index])?);
                let length = configurations.len();
                let moves = (last + length - first) % length;
                (1..=moves).map(|step| configurations[(first + step) % length].clone()).collect()
            }
            _ => vec![to[index].clone()],
        };
        if rounds.len() < way.len() {
            rounds.resize(way.len(), Vec::new());
        }
        // A device that needs fewer rounds moves in the last ones, so that nothing waits between its change and its use.
        let skip = rounds.len() - way.len();
        for (round, set) in rounds[skip..].iter_mut().zip(way) {
            round.push((DeviceId::new(index), set));
        }
    }
    for round in &mut rounds {
        round.sort_unstable_by_key(|(device, _)| *device);
    }
    Some(rounds)
}

/// Dynamic programming over steps and configurations.
pub struct Search<'a> {
    topology: &'a Topology,
    class: &'a Class,
    costs: &'a Costs,
    /// Time of a change of each device.
    delays: Vec<Time>,
    /// From configuration → to configuration: time and number of changes; `None` if that cannot be.
    moves: Vec<Vec<Option<(Time, usize)>>>,
    change: Time,
    restore: bool,
}

impl<'a> Search<'a> {
    pub fn new(problem: &'a Problem, class: &'a Class, costs: &'a Costs, restore: bool) -> Self {
        let topology: &Topology = problem.topology();
        let synchronisation = problem.cost().synchronisation.time();
        let delay = |device: &Device| device.reconfiguration_delay.time() + synchronisation.clone();
        let delays: Vec<Time> = topology.devices().iter().map(delay).collect();
        let longest = |round: &Vec<(DeviceId, Configuration)>| {
            round.iter().map(|(device, _)| delays[device.index()].clone()).max().unwrap_or_else(Time::zero)
        };
        let price = |from: &Vec<Configuration>, to: &Vec<Configuration>| {
            let rounds = rounds(topology, from, to)?;
            Some((rounds.iter().map(longest).sum(), rounds.len()))
        };
        let all = &class.configurations;
        let moves = all.iter().map(|from| all.iter().map(|to| price(from, to)).collect()).collect();
        let change = delays.iter().max().cloned().unwrap_or(synchronisation);
        Self { topology, class, costs, delays, moves, change, restore }
    }

    /// Time and number of the changes between two configurations before a step (or the end), where the step before had the
    /// first one.
    fn change(&self, step: usize, from: usize, to: usize) -> Option<(Time, usize)> {
        let known = self.moves[from][to].clone()?;
        let run = match self.costs.beside.get(step) {
            _ if known.1 == 0 => return Some(known),
            None | Some(Beside::Nothing) => return Some(known),
            Some(Beside::Local(time)) => time,
            Some(Beside::Step) => self.costs.by_step[step - 1][from].as_ref()?,
        };
        let [before, after] = [from, to].map(|at| &self.class.configurations[at]);
        let rounds = rounds(self.topology, before, after)?;
        let mut time = Time::zero();
        for (number, round) in rounds.iter().enumerate() {
            let charges = round.iter().map(|(device, set)| {
                let own = self.delays[device.index()].clone();
                // Only the first change directly follows the step.
                let busy = match self.costs.beside[step] {
                    _ if 0 < number => return own,
                    Beside::Step => {
                        let used = &self.costs.used[step - 1][from];
                        cost::moved_ports(Some(&before[device.index()]), set)
                            .any(|port| used.contains(&(*device, port)))
                    }
                    _ => false,
                };
                cost::overlapped(own, (!busy).then_some(run))
            });
            time = time + charges.max().unwrap_or_else(Time::zero);
        }
        Some((time, rounds.len()))
    }

    /// What a change costs in which every device takes part.
    pub fn full_change(&self) -> Time {
        self.change.clone()
    }

    /// Every step under every configuration that makes it possible.
    pub fn anything(&self) -> Vec<Vec<usize>> {
        let possible = |row: &Vec<Option<Time>>| (0..row.len()).filter(|&at| row[at].is_some()).collect();
        self.costs.by_step.iter().map(possible).collect()
    }

    /// The cheapest plan that takes one of the allowed configurations in each step; ties go to fewer changes, then to the
    /// earlier configurations.
    pub fn best(&self, allowed: &[Vec<usize>]) -> Option<Plan> {
        type Label = (Time, usize);
        let count = self.moves.len();
        let mut labels: Vec<Option<Label>> = vec![None; count];
        labels[0] = Some((Time::zero(), 0));
        let mut back: Vec<Vec<usize>> = Vec::with_capacity(allowed.len());
        for (number, (row, allowed)) in self.costs.by_step.iter().zip(allowed).enumerate() {
            let mut next: Vec<Option<Label>> = vec![None; count];
            let mut from = vec![0; count];
            for &to in allowed {
                let Some(step) = &row[to] else { continue };
                for (at, label) in labels.iter().enumerate() {
                    let Some((time, changes)) = label else { continue };
                    let Some((change, rounds)) = self.change(number, at, to) else { continue };
                    let reached = (time.clone() + change + step.clone(), changes + rounds);
                    if next[to].as_ref().is_none_or(|known| reached < *known) {
                        next[to] = Some(reached);
                        from[to] = at;
                    }
                }
            }
            labels = next;
            back.push(from);
        }
        let ends = labels.into_iter().enumerate().filter_map(|(at, label)| {
            let (time, changes) = label?;
            if !self.restore {
                return Some(((time, changes), at));
            }
            let (change, rounds) = self.change(allowed.len(), at, 0)?;
            Some(((time + change, changes + rounds), at))
        });
        let ((time, changes), mut at) = ends.min()?;
        let mut configurations = vec![0; allowed.len()];
        for (step, from) in back.iter().enumerate().rev() {
            configurations[step] = at;
            at = from[at];
        }
        Some(Plan { time, changes, configurations })
    }
}

/// Each step on the initial circuits, or as cheaply on others, or on its own.
pub fn per_step(class: &Class, costs: &Costs) -> Vec<Vec<usize>> {
    (0..costs.by_step.len())
        .map(|step| {
            let mut allowed = costs.as_initial(step);
            allowed.extend(class.own[step].filter(|own| !allowed.contains(own)));
            allowed.sort_unstable();
            allowed
        })
        .collect()
}
