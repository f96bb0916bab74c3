//! From a query that the solver found satisfiable to a counterexample for people.

use num_bigint::BigUint;
use num_traits::Zero;
use rondo_ir::collective::Place;
use rustc_hash::FxHashMap;

use super::encode::{Algebra, Node, PlaceCheck, Query};
use super::{SmtCounterexample, SmtFault};

impl Query {
    /// How often each variable occurs in a node's sum, sorted by variable.
    pub(super) fn occurrences(&self, node: u32) -> Vec<(u32, BigUint)> {
        let mut factors = vec![BigUint::zero(); node as usize + 1];
        factors[node as usize] = BigUint::from(1_u8);
        let mut inputs: FxHashMap<u32, BigUint> = FxHashMap::default();
        for index in (0..=node as usize).rev() {
            let factor = std::mem::take(&mut factors[index]);
            if factor.is_zero() {
                continue;
            }
            match self.nodes[index] {
                Node::Input(variable) => *inputs.entry(variable).or_default() += factor,
                Node::Add(a, b) => {
                    factors[a as usize] += &factor;
                    factors[b as usize] += factor;
                }
            }
        }
        let mut list: Vec<_> = inputs.into_iter().collect();
        list.sort_unstable_by_key(|&(variable, _)| variable);
        list
    }

    /// The counterexample at one place; `None` if nothing differs there.
    pub(crate) fn difference(&self, check: &PlaceCheck) -> Option<SmtCounterexample> {
        let mut counts: FxHashMap<u32, (BigUint, u64)> = FxHashMap::default();
        for (variable, held) in self.occurrences(check.held) {
            counts.entry(variable).or_default().0 = held;
        }
        for &(variable, due) in &self.expected[check.due as usize] {
            counts.entry(variable).or_default().1 = due;
        }
        let mut differences: Vec<_> = counts
            .into_iter()
            .map(|(variable, (held, due))| match self.algebra {
                Algebra::Integers => (self.inputs[variable as usize], held, due),
                Algebra::Booleans => {
                    (self.inputs[variable as usize], BigUint::from(u8::from(!held.is_zero())), u64::from(due != 0))
                }
            })
            .filter(|(_, held, due)| *held != BigUint::from(*due))
            .collect();
        differences.sort_unstable_by_key(|&(contribution, _, _)| contribution);
        let model = vec![(differences.first()?.0, 1)];
        Some(SmtCounterexample {
            group: self.group,
            rank: self.ranks[check.position as usize],
            place: Place::output(check.slot),
            fault: SmtFault::Wrong { differences, model },
        })
    }
}
