//! Schedules for a fuzzer.

use pascaline_seal::Protection;

use super::World;
use crate::plan::Plan;
use crate::random::Random;
use crate::sabotage::Sabotage;
use crate::trace::Words;
use crate::violation::Violation;

/// Runs a schedule with an attacker whose script these bytes are, for a fuzzer. The first one chooses how
/// packets are sealed, the next two the schedule.
///
/// # Errors
/// The invariant that it violates.
pub fn scripted(bytes: &[u8], sabotage: Sabotage) -> Result<(), Violation> {
    let [mode, low, high, script @ ..] = bytes else { return Ok(()) };
    let mut random = Random::new(u16::from_le_bytes([*low, *high]).into());
    let plan = match mode % 3 {
        0 => Plan::draw(&mut random),
        1 => Plan::sealed(&mut random, Protection::Mac),
        _ => Plan::sealed(&mut random, Protection::Encrypt),
    };
    let mut world = World::new(&plan, random, sabotage, Words::None);
    world.attacker.follow(script);
    world.run().and_then(|()| world.end())
}
