//! Plans for in-network aggregation: the way of each worker's gradients through a Clos network, where they
//! are added up, and at which rate, so that the slowest is as fast as possible (the model is ARO's).
//!
//! An [`Instance`] is a network and its tasks, from a file ([`read()`]) or built. [`plan()`] finds a [`Plan`]
//! with a proof that none is better, or with the gap that is left; [`replay()`] has checked it by walking
//! every path. docs/planning.md has the model and the algorithms.
#![forbid(unsafe_code)]

mod compare;
mod error;
mod fast;
mod keep;
mod milp;
pub mod model;
mod picture;
mod place;
mod plan;
mod rates;
mod read;
mod replay;
mod report;
mod routes;
mod setting;
mod solve;
mod unfold;

pub use self::error::PlanError;
pub use self::keep::{Former, Kept, extend};
pub use self::model::Instance;
pub use self::picture::to_svg;
pub use self::place::{Placement, place};
pub use self::plan::{Binding, Plan, Proof, TaskPlan};
pub use self::read::{SCHEMA, read};
pub use self::replay::replay;
pub use self::report::{Placed, Summary, to_json, to_json_with};
pub use self::setting::Setting;
pub use self::solve::{Options, Solver, plan};
