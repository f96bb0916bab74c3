//! The queries, asked of Z3.

use std::panic::{AssertUnwindSafe, catch_unwind};

use z3::ast::{Ast, Bool, Int};
use z3::{Params, SatResult, Solver};

use super::encode::{Algebra, Node, Query};
use super::{QueryOutcome, SmtFault, SmtOptions};

/// Solver and version: `Z3 4.8.12`.
pub(crate) fn name() -> String {
    // "Z3 4.8.12.0", in newer versions with a build hash behind it.
    let full = z3::full_version();
    let number: Vec<&str> = full.trim_start_matches("Z3").trim().split([' ', '.']).take(3).collect();
    format!("Z3 {}", number.join("."))
}

/// Asks for an input at which some place is wrong; `unsat` is the proof.
pub(crate) fn solve(query: &Query, options: &SmtOptions) -> QueryOutcome {
    // Out of memory, the z3 crate unwraps a null term; sizes are bounded before, this is the last resort.
    catch_unwind(AssertUnwindSafe(|| ask(query, options)))
        .unwrap_or_else(|_| QueryOutcome::Unknown("the solver ran out of memory".to_owned()))
}

/// The terms of a query.
enum Terms {
    Integers { inputs: Vec<Int>, nodes: Vec<Int>, due: Vec<Int> },
    Booleans { inputs: Vec<Bool>, nodes: Vec<Bool>, due: Vec<Bool> },
}

impl Terms {
    fn new(query: &Query) -> Self {
        let count = query.inputs.len();
        let symbol = |variable: usize| z3::Symbol::Int(u32::try_from(variable).unwrap_or(u32::MAX));
        match query.algebra {
            Algebra::Integers => {
                let inputs: Vec<Int> = (0..count).map(|v| Int::new_const(symbol(v))).collect();
                let mut nodes: Vec<Int> = Vec::with_capacity(query.nodes.len());
                for node in &query.nodes {
                    let term = match *node {
                        Node::Input(variable) => inputs[variable as usize].clone(),
                        Node::Add(a, b) => Int::add(&[&nodes[a as usize], &nodes[b as usize]]),
                    };
                    nodes.push(term);
                }
                let sum = |due: &Vec<(u32, u64)>| {
                    let parts: Vec<Int> = due
                        .iter()
                        .map(|&(variable, count)| {
                            let input = &inputs[variable as usize];
                            if count == 1 { input.clone() } else { Int::mul(&[&Int::from_u64(count), input]) }
                        })
                        .collect();
                    if parts.is_empty() { Int::from_u64(0) } else { Int::add(&parts.iter().collect::<Vec<_>>()) }
                };
                let due = query.expected.iter().map(sum).collect();
                Self::Integers { inputs, nodes, due }
            }
            Algebra::Booleans => {
                let inputs: Vec<Bool> = (0..count).map(|v| Bool::new_const(symbol(v))).collect();
                let mut nodes: Vec<Bool> = Vec::with_capacity(query.nodes.len());
                for node in &query.nodes {
                    let term = match *node {
                        Node::Input(variable) => inputs[variable as usize].clone(),
                        Node::Add(a, b) => Bool::or(&[&nodes[a as usize], &nodes[b as usize]]),
                    };
                    nodes.push(term);
                }
                let any = |due: &Vec<(u32, u64)>| {
                    let parts: Vec<&Bool> = due.iter().map(|&(variable, _)| &inputs[variable as usize]).collect();
                    Bool::or(&parts)
                };
                let due = query.expected.iter().map(any).collect();
                Self::Booleans { inputs, nodes, due }
            }
        }
    }

    /// The place is wrong.
    fn differs(&self, (held, due): (u32, u32)) -> Bool {
        let (held, due) = (held as usize, due as usize);
        match self {
            // Z3 folds constants and normalises both sums here; its solver would do so twice.
            Self::Integers { nodes, due: expected, .. } => nodes[held].ne(&expected[due]).simplify(),
            Self::Booleans { nodes, due: expected, .. } => nodes[held].ne(&expected[due]),
        }
    }

    /// One input is 1 and all others are 0.
    fn only(&self, one: usize) -> Vec<Bool> {
        match self {
            Self::Integers { inputs, .. } => {
                inputs.iter().enumerate().map(|(v, input)| input.eq(Int::from_u64(u64::from(v == one)))).collect()
            }
            Self::Booleans { inputs, .. } => {
                inputs.iter().enumerate().map(|(v, input)| if v == one { input.clone() } else { input.not() }).collect()
            }
        }
    }
}

fn new_solver(query: &Query, options: &SmtOptions) -> Solver {
    // The solver for linear integers is three times as fast here as the general one.
    let solver = match query.algebra {
        Algebra::Integers => Solver::new_for_logic("QF_LIA").unwrap_or_default(),
        Algebra::Booleans => Solver::new(),
    };
    limit(&solver, options);
    solver
}

fn limit(solver: &Solver, options: &SmtOptions) {
    let mut params = Params::new();
    if options.rlimit != 0 {
        params.set_u32("rlimit", options.rlimit);
    }
    if options.timeout_ms != 0 {
        params.set_u32("timeout", options.timeout_ms);
    }
    solver.set_params(&params);
}

/// Whether a text of declarations and this many assertions can be satisfied.
pub(crate) fn asks(logic: &str, text: &str, assertions: usize, options: &SmtOptions) -> Result<bool, String> {
    let ask = || {
        let solver = Solver::new_for_logic(logic).unwrap_or_default();
        limit(&solver, options);
        solver.from_string(text);
        // The interface is silent about a text that it does not understand.
        if solver.get_assertions().len() != assertions {
            return Err("the solver did not read the query".to_owned());
        }
        match solver.check() {
            SatResult::Sat => Ok(true),
            SatResult::Unsat => Ok(false),
            SatResult::Unknown => {
                let reason = solver.get_reason_unknown().unwrap_or_default();
                Err(format!("the solver gave up ({reason})"))
            }
        }
    };
    catch_unwind(AssertUnwindSafe(ask)).unwrap_or_else(|_| Err("the solver ran out of memory".to_owned()))
}

fn ask(query: &Query, options: &SmtOptions) -> QueryOutcome {
    if query.checks.is_empty() {
        return QueryOutcome::Proved;
    }
    let terms = Terms::new(query);
    let wrong: Vec<Bool> = query.pairs().into_iter().map(|pair| terms.differs(pair)).collect();
    let somewhere = Bool::or(&wrong.iter().collect::<Vec<_>>()).simplify();
    // Simplified away: no input makes any place wrong, and no search is needed.
    if somewhere.as_bool() == Some(false) {
        return QueryOutcome::Proved;
    }
    let solver = new_solver(query, options);
    solver.assert(&somewhere);
    match solver.check() {
        SatResult::Unsat => QueryOutcome::Proved,
        SatResult::Sat => refute(query, &terms, &solver),
        SatResult::Unknown => {
            let reason = solver.get_reason_unknown().unwrap_or_default();
            QueryOutcome::Unknown(format!("the solver gave up ({reason})"))
        }
    }
}

/// The first wrong place, with the simplest input that shows it. Models differ between versions of Z3, so the model itself
/// is not used: the place and the contribution follow from the terms, and the solver confirms the input.
fn refute(query: &Query, terms: &Terms, solver: &Solver) -> QueryOutcome {
    let found = query.checks.iter().find_map(|check| Some((check, query.difference(check)?)));
    let Some((check, counterexample)) = found else {
        return QueryOutcome::Unknown("the solver says sat, but no contribution is missing or doubled".to_owned());
    };
    if let SmtFault::Wrong { model, .. } = &counterexample.fault
        && let Some(one) = model.first().and_then(|&(input, _)| query.inputs.iter().position(|&i| i == input))
    {
        solver.reset();
        solver.assert(terms.differs((check.held, check.due)));
        for equation in terms.only(one) {
            solver.assert(equation);
        }
        if solver.check() == SatResult::Sat {
            return QueryOutcome::Refuted(counterexample);
        }
    }
    QueryOutcome::Unknown(format!("the solver does not confirm its counterexample ({counterexample})"))
}
