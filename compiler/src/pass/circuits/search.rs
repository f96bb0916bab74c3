//! The cheapest sequence of configurations.

use rondo_ir::index::DeviceId;
use rondo_ir::problem::Problem;
use rondo_ir::topology::{Configuration, LegalConfigurations, Topology};
use rondo_ir::units::Time;

use super::Class;

/// Per step and configuration: the step's time without changes.
pub struct Costs {
    pub by_step: Vec<Vec<Option<Time>>>,
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
    costs: &'a Costs,
    /// From configuration → to configuration: time and number of changes; `None` if that cannot be.
    moves: Vec<Vec<Option<(Time, usize)>>>,
    change: Time,
    restore: bool,
}

impl<'a> Search<'a> {
    pub fn new(problem: &Problem, class: &Class, costs: &'a Costs, restore: bool) -> Self {
        let topology = problem.topology();
        let synchronisation = problem.cost().synchronisation.time();
        let delay = |device: DeviceId| topology.device(device).reconfiguration_delay.time();
        let price = |from: &Vec<Configuration>, to: &Vec<Configuration>| {
            let rounds = rounds(topology, from, to)?;
            let time = rounds.iter().map(|round| {
                let longest = round.iter().map(|(device, _)| delay(*device)).max().unwrap_or_else(Time::zero);
                longest + synchronisation.clone()
            });
            Some((time.sum(), rounds.len()))
        };
        let all = &class.configurations;
        let moves = all.iter().map(|from| all.iter().map(|to| price(from, to)).collect()).collect();
        let slowest = topology.devices().iter().map(|device| device.reconfiguration_delay.time()).max();
        let change = slowest.unwrap_or_else(Time::zero) + synchronisation;
        Self { costs, moves, change, restore }
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
        for (row, allowed) in self.costs.by_step.iter().zip(allowed) {
            let mut next: Vec<Option<Label>> = vec![None; count];
            let mut from = vec![0; count];
            for &to in allowed {
                let Some(step) = &row[to] else { continue };
                for (at, label) in labels.iter().enumerate() {
                    let (Some((time, changes)), Some((change, rounds))) = (label, &self.moves[at][to]) else {
                        continue;
                    };
                    let reached = (time.clone() + change.clone() + step.clone(), changes + rounds);
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
            let (change, rounds) = self.moves[at][0].clone()?;
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
