//! A replay of a plan from its JSON, as slow and plain as can be: the second opinion of the tests. It follows
//! docs/plan-format.md and the table of collectives in the documentation of `rondo-ir`, and uses nothing of Rondo.
//!
//! Plans of one group with rows, barriers between steps, and no devices.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

/// Why a plan is wrong.
pub type Failure = String;

/// Rank, buffer, slot.
type Place = (u64, char, u64);
/// (rank, input slot) → how often.
type Sum = BTreeMap<(u64, u64), u64>;

struct Setting<'a> {
    plan: &'a Value,
    kind: &'a str,
    ranks: u64,
    chunks: u64,
    in_place: bool,
}

/// Whether the plan does what its collective says.
pub fn replay(plan: &Value) -> Result<(), Failure> {
    let group = &plan["problem"]["groups"][0];
    let collective = &group["collective"];
    let setting = Setting {
        plan,
        kind: collective["kind"].as_str().expect("a kind"),
        ranks: group["ranks"].as_array().expect("ranks").len() as u64,
        chunks: plan["schedule"]["chunks"][0].as_u64().expect("chunks"),
        in_place: collective["in_place"].as_bool().expect("in_place"),
    };
    let mut state: HashMap<Place, Sum> = HashMap::new();
    for rank in 0..setting.ranks {
        for slot in 0..setting.slots(rank, 'i') {
            state.insert(setting.one_name((rank, 'i', slot)), Sum::from([((rank, slot), 1)]));
        }
    }
    for step in plan["schedule"]["steps"].as_array().expect("steps") {
        state = setting.step(step, state)?;
    }
    for rank in 0..setting.ranks {
        for slot in 0..setting.slots(rank, 'o') {
            let wanted = setting.wanted(rank, slot);
            let held = state.get(&setting.one_name((rank, 'o', slot))).ok_or("an output is undefined")?;
            if *held != wanted {
                return Err(format!("output {slot} of rank {rank} is wrong"));
            }
        }
    }
    Ok(())
}

impl Setting<'_> {
    fn slots(&self, rank: u64, buffer: char) -> u64 {
        let (n, k) = (self.ranks, self.chunks);
        let (input, output) = match self.kind {
            "all_reduce" => (k, k),
            "all_gather" => (k, n * k),
            "reduce_scatter" => (n * k, k),
            "all_to_all" => (n * k, n * k),
            "custom" => {
                let collective = &self.plan["problem"]["groups"][0]["collective"];
                let rank = usize::try_from(rank).expect("small");
                let input = collective["input_slots"][rank].as_u64().expect("slots");
                (input * k, collective["output"][rank].as_array().expect("slots").len() as u64 * k)
            }
            other => panic!("{other} is not known here"),
        };
        let scratch = &self.plan["schedule"]["scratch"][0][usize::try_from(rank).expect("small")];
        match buffer {
            'i' => input,
            'o' => output,
            _ => scratch.as_array().map_or(0, |slots| slots.len() as u64),
        }
    }

    /// In place, all_reduce calls one buffer by two names.
    fn one_name(&self, (rank, buffer, slot): Place) -> Place {
        assert!(!self.in_place || self.kind == "all_reduce", "not known here");
        (rank, if self.in_place && buffer == 'i' { 'o' } else { buffer }, slot)
    }

    fn wanted(&self, rank: u64, slot: u64) -> Sum {
        let (n, k) = (self.ranks, self.chunks);
        match self.kind {
            "all_reduce" => (0..n).map(|p| ((p, slot), 1)).collect(),
            "all_gather" => Sum::from([((slot / k, slot % k), 1)]),
            "reduce_scatter" => (0..n).map(|p| ((p, rank * k + slot), 1)).collect(),
            "all_to_all" => Sum::from([((slot / k, rank * k + slot % k), 1)]),
            _ => {
                let index = |number: u64| usize::try_from(number).expect("small");
                let output = &self.plan["problem"]["groups"][0]["collective"]["output"];
                let terms = output[index(rank)][index(slot / k)].as_array().expect("a sum").iter();
                let number = |value: &Value| value.as_u64().expect("a number");
                terms.map(|term| ((number(&term[0]), number(&term[1]) * k + slot % k), number(&term[2]))).collect()
            }
        }
    }

    fn step(&self, step: &Value, before: HashMap<Place, Sum>) -> Result<HashMap<Place, Sum>, Failure> {
        let mut after = before.clone();
        let mut copied = HashSet::new();
        let mut added = HashSet::new();
        for row in step["flows"].as_array().expect("flows") {
            let number = |column: usize| row[column].as_u64().expect("a number");
            let letter = |column: usize| row[column].as_str().and_then(|t| t.chars().next()).expect("a buffer");
            let (src, dst) = (number(0), number(3));
            self.check_path(row, src, dst)?;
            for slot in 0..number(6) {
                let from = (src, letter(1), number(2) + slot);
                let to = (dst, letter(4), number(5) + slot);
                for (rank, buffer, slot) in [from, to] {
                    if self.slots(rank, buffer) <= slot {
                        return Err(format!("rank {rank} has no {buffer}[{slot}]"));
                    }
                }
                if to.1 == 'i' && !self.in_place {
                    return Err("the input is written".to_owned());
                }
                let (from, to) = (self.one_name(from), self.one_name(to));
                let value = before.get(&from).ok_or_else(|| format!("{from:?} is undefined"))?;
                if row[7] == "copy" {
                    if !copied.insert(to) || added.contains(&to) {
                        return Err(format!("{to:?} is written twice"));
                    }
                    after.insert(to, value.clone());
                } else {
                    if copied.contains(&to) || !before.contains_key(&to) {
                        return Err(format!("{to:?} is written twice, or undefined"));
                    }
                    added.insert(to);
                    let sum = after.get_mut(&to).expect("defined before");
                    for (&term, &count) in value {
                        *sum.entry(term).or_default() += count;
                    }
                }
            }
        }
        Ok(after)
    }

    /// A route leads from node to node over links that are up and nodes that pass traffic on.
    fn check_path(&self, row: &Value, src: u64, dst: u64) -> Result<(), Failure> {
        let Some(route) = row[8].as_u64() else {
            assert_eq!(row[8], "local", "not known here");
            return if src == dst { Ok(()) } else { Err("local work between two ranks".to_owned()) };
        };
        let index = |number: u64| usize::try_from(number).expect("small");
        let problem = &self.plan["problem"];
        let node = |rank: u64| problem["placement"][index(rank)].as_u64().expect("a node");
        let route = &self.plan["schedule"]["routes"][index(route)];
        let parts: Vec<&Value> = match route["parts"].as_array() {
            Some(parts) => parts.iter().map(|part| &part["hops"]).collect(),
            None => vec![route],
        };
        for part in parts {
            let mut at = node(src);
            for (number, hop) in part.as_array().ok_or("no such route")?.iter().enumerate() {
                let link = &problem["topology"]["links"][index(hop.as_u64().expect("a link"))];
                let forwards = problem["topology"]["nodes"][index(at)]["forwards"].as_bool().expect("a flag");
                if link[0] != at || link[4] == "down" || (0 < number && !forwards) {
                    return Err(format!("the route breaks at node {at}"));
                }
                at = link[1].as_u64().expect("a node");
            }
            if at != node(dst) || src == dst {
                return Err("the route ends elsewhere".to_owned());
            }
        }
        Ok(())
    }
}
