//! Whether a rule takes the cheapest of several plans everywhere in a region of message sizes and delays.
//!
//! The price of a plan is affine in the message size m and the delay δ of a reconfiguration. A rule is a list of entries, each
//! with conditions "plan a is no dearer than plan b"; the first entry whose conditions hold gives the plan. The question goes
//! to Z3 over exact rationals: is there a point of the region at which no entry holds, or at which some plan is cheaper than the
//! one that the rule takes? `unsat` is the proof.

use std::fmt::Write as _;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};

use crate::Answer;
use crate::smt::SmtOptions;

/// An affine price in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affine {
    /// At size 0 and delay 0.
    pub constant: BigRational,
    /// A byte.
    pub per_byte: BigRational,
    /// A second of delay: the number of reconfigurations.
    pub per_delay: BigRational,
}

impl Affine {
    /// The price at a point.
    #[must_use]
    pub fn at(&self, bytes: &BigRational, delay: &BigRational) -> BigRational {
        &self.constant + &self.per_byte * bytes + &self.per_delay * delay
    }
}

/// An entry of a rule: a plan, and the pairs (a, b) of plans of which the first must be no dearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What must hold.
    pub conditions: Vec<(usize, usize)>,
    /// What is taken then.
    pub choice: usize,
}

/// Which plan is taken where: the first entry that holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rule {
    /// In order.
    pub entries: Vec<Entry>,
}

impl Rule {
    /// The plan at a point; `None` if no entry holds.
    #[must_use]
    pub fn choose(&self, plans: &[Affine], bytes: &BigRational, delay: &BigRational) -> Option<usize> {
        let no_dearer = |&(a, b): &(usize, usize)| plans[a].at(bytes, delay) <= plans[b].at(bytes, delay);
        self.entries.iter().find(|entry| entry.conditions.iter().all(no_dearer)).map(|entry| entry.choice)
    }
}

/// Sizes in bytes and delays in seconds, ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Smallest and largest size.
    pub bytes: (BigRational, BigRational),
    /// Smallest and largest delay.
    pub delay: (BigRational, BigRational),
}

/// The question as SMT-LIB 2 (QF_LRA); `unsat` says that the rule is best everywhere. The number of its assertions.
///
/// # Panics
/// If the rule names a plan that does not exist.
#[must_use]
pub fn certificate(plans: &[Affine], rule: &Rule, region: &Region) -> (String, usize) {
    let mut out = String::from(
        "; Is there a message size m (bytes) and a reconfiguration delay d (seconds) of the region at which the rule takes a plan\n\
         ; that is dearer than another one, or none? unsat: the rule is best everywhere.\n\
         (set-logic QF_LRA)\n(declare-const m Real)\n(declare-const d Real)\n",
    );
    for (name, (low, high)) in [("m", &region.bytes), ("d", &region.delay)] {
        let _ = writeln!(out, "(assert (and (<= {} {name}) (<= {name} {})))", number(low), number(high));
    }
    for (index, plan) in plans.iter().enumerate() {
        let _ = writeln!(
            out,
            "(define-fun c{index} () Real (+ {} (* {} m) (* {} d)))",
            number(&plan.constant),
            number(&plan.per_byte),
            number(&plan.per_delay)
        );
    }
    let holds = |entry: &Entry| {
        let conditions = entry.conditions.iter().map(|(a, b)| format!(" (<= c{a} c{b})"));
        format!("(and true{})", conditions.collect::<String>())
    };
    for (index, entry) in rule.entries.iter().enumerate() {
        let _ = writeln!(out, "(define-fun e{index} () Bool {})", holds(entry));
    }
    let any: String = (0..rule.entries.len()).map(|index| format!(" e{index}")).collect();
    let mut wrong = format!("(not (or false{any}))");
    for (index, entry) in rule.entries.iter().enumerate() {
        let before: String = (0..index).map(|earlier| format!(" (not e{earlier})")).collect();
        let dearer = (0..plans.len()).filter(|&other| other != entry.choice);
        let dearer: String = dearer.map(|other| format!(" (< c{other} c{})", entry.choice)).collect();
        let _ = write!(wrong, "\n  (and e{index}{before} (or false{dearer}))");
    }
    let _ = writeln!(out, "(assert (or {wrong}))\n(check-sat)");
    (out, 3)
}

/// A rational in SMT-LIB.
fn number(value: &BigRational) -> String {
    let size = value.abs();
    let text = if size.is_integer() {
        format!("{}.0", size.numer())
    } else {
        format!("(/ {}.0 {}.0)", size.numer(), size.denom())
    };
    if value < &BigRational::zero() { format!("(- {text})") } else { text }
}

/// Whether the rule is best everywhere in the region, and by what.
#[must_use]
pub fn prove(plans: &[Affine], rule: &Rule, region: &Region, options: &SmtOptions) -> (Answer, String) {
    let names = rule
        .entries
        .iter()
        .flat_map(|entry| entry.conditions.iter().flat_map(|&(a, b)| [a, b]).chain(std::iter::once(entry.choice)));
    if names.max().is_some_and(|largest| plans.len() <= largest) {
        return (Answer::Refuted, "the rule names a plan that does not exist".to_owned());
    }
    // The corners and middle are quickly looked at, and show most mistakes by a point.
    let two = BigRational::from_integer(BigInt::from(2));
    let along = |(low, high): &(BigRational, BigRational)| [low.clone(), (low + high) / &two, high.clone()];
    for bytes in along(&region.bytes) {
        for delay in along(&region.delay) {
            let least = plans.iter().map(|plan| plan.at(&bytes, &delay)).min();
            let taken = rule.choose(plans, &bytes, &delay).map(|choice| plans[choice].at(&bytes, &delay));
            if taken != least {
                return (Answer::Refuted, format!("at {bytes} bytes and a delay of {delay} s another plan is cheaper"));
            }
        }
    }
    ask(plans, rule, region, options)
}

#[cfg(feature = "smt")]
fn ask(plans: &[Affine], rule: &Rule, region: &Region, options: &SmtOptions) -> (Answer, String) {
    let (text, assertions) = certificate(plans, rule, region);
    let query = text.replace("(check-sat)\n", "");
    match crate::smt::asks("QF_LRA", &query, assertions, options) {
        Ok(false) => (Answer::Proved, format!("{}: unsat over exact rationals", crate::smt::solver_name())),
        Ok(true) => {
            (Answer::Refuted, format!("{} finds a point where another plan is cheaper", crate::smt::solver_name()))
        }
        Err(reason) => (Answer::Unknown, reason),
    }
}

#[cfg(not(feature = "smt"))]
fn ask(_: &[Affine], _: &Rule, _: &Region, _: &SmtOptions) -> (Answer, String) {
    (Answer::Unknown, "built without Z3; the certificate can be given to another solver".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(value: i64) -> BigRational {
        BigRational::from_integer(BigInt::from(value))
    }

    fn plan(constant: i64, per_byte: i64, per_delay: i64) -> Affine {
        Affine { constant: whole(constant), per_byte: whole(per_byte), per_delay: whole(per_delay) }
    }

    fn entry(conditions: &[(usize, usize)], choice: usize) -> Entry {
        Entry { conditions: conditions.to_vec(), choice }
    }

    fn region() -> Region {
        Region { bytes: (whole(0), whole(100)), delay: (whole(0), whole(10)) }
    }

    #[test]
    #[cfg(feature = "smt")]
    fn a_right_rule_is_proved_and_a_wrong_one_is_not() {
        // Plans that win in different corners.
        let plans = [plan(10, 1, 0), plan(0, 2, 1), plan(60, 0, 0)];
        let all = |choice: usize| {
            let others = (0..plans.len()).filter(|&other| other != choice);
            entry(&others.map(|other| (choice, other)).collect::<Vec<_>>(), choice)
        };
        let right = Rule { entries: vec![all(0), all(1), all(2)] };
        let options = SmtOptions::default();
        assert_eq!(prove(&plans, &right, &region(), &options).0, Answer::Proved);
        // Forgets that plan 2 can be cheaper than plan 0.
        let wrong = Rule { entries: vec![entry(&[(0, 1)], 0), all(1), all(2)] };
        let narrow = Region { bytes: (whole(0), whole(55)), delay: (whole(0), whole(10)) };
        assert_eq!(prove(&plans, &wrong, &narrow, &options).0, Answer::Refuted);
        // Leaves points without a plan.
        let gap = Rule { entries: vec![all(0), all(2)] };
        assert_eq!(prove(&plans, &gap, &region(), &options).0, Answer::Refuted);
        let missing = Rule { entries: vec![entry(&[], 7)] };
        assert_eq!(prove(&plans, &missing, &region(), &options).0, Answer::Refuted);
    }

    #[test]
    fn numbers_are_written_exactly() {
        let half = BigRational::new(BigInt::from(-1), BigInt::from(2));
        assert_eq!([number(&half), number(&whole(3))], ["(- (/ 1.0 2.0))", "3.0"]);
    }
}
