//! The value of measures, and whether an objective holds.

use num_traits::{One as _, Zero as _};

use crate::exact::Run;
use crate::scenario::{Exact, Objective, Query};

/// An objective, evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Each cluster's measure, in ns, in the query's order.
    pub(crate) measures: Vec<Exact>,
    /// The value compared: the largest difference or measure, in ns, or Jain's index.
    pub(crate) value: Exact,
    /// The clusters that decide: two for a difference, one for a bound, none for Jain's index.
    pub(crate) deciding: Vec<usize>,
    pub(crate) holds: bool,
}

pub(crate) fn judge(query: &Query, run: &Run) -> Judged {
    let measures: Vec<Exact> =
        query.clusters.iter().map(|cluster| run.measure(*cluster, query.measure)).collect();
    // A query has at least one cluster.
    let position = |best: fn(&Exact, &Exact) -> bool| {
        (1..measures.len()).fold(0, |at, next| if best(&measures[next], &measures[at]) { next } else { at })
    };
    let highest = position(|a, b| a > b);
    let lowest = position(|a, b| a < b);
    let (value, deciding, holds) = match &query.objective {
        Objective::Difference(most) => {
            let value = &measures[highest] - &measures[lowest];
            let holds = value <= *most;
            (value, vec![query.clusters[highest], query.clusters[lowest]], holds)
        }
        Objective::Bound(most) => {
            let value = measures[highest].clone();
            let holds = value <= *most;
            (value, vec![query.clusters[highest]], holds)
        }
        Objective::Jain(least) => {
            let value = jain(&measures);
            let holds = value >= *least;
            (value, Vec::new(), holds)
        }
    };
    Judged { measures, value, deciding, holds }
}

/// Jain's index, without rounding; 1 if all are 0.
fn jain(measures: &[Exact]) -> Exact {
    let sum: Exact = measures.iter().sum();
    let squares: Exact = measures.iter().map(|measure| measure * measure).sum();
    if squares.is_zero() {
        return Exact::one();
    }
    &sum * &sum / (squares * Exact::from_integer(measures.len().into()))
}
