//! Lost packets, and their repair (sections IV.B, IV.C and VII.C).

use super::{Curves, DSA, Figure, Made, Row, Scope, model, on, testbed};
use crate::experiments::policies::{Case, Lossy, Repair, ResultsAt, Role, Setting, Task, watched};
use crate::paper::figure::{distribution, quantile};

/// The three roles of a PSN without loss, and the paper's statements about their losses (section IV.C).
const FIRST: [(Role, &str); 3] = [
    (
        Role::Gradient,
        "the paper: sent again after a timeout; the switch knows duplicates by their bits, and completes \
         the sum",
    ),
    (
        Role::Result,
        "the paper: the worker's gradient sent again never completes a sum, so after three it reminds the \
         server, which fetches every gradient. Here the switch still has most results, and answers with them",
    ),
    (
        Role::Loser,
        "the paper: the server has a part only, and starts its reminders, or workers do after three sendings",
    ),
];

/// Losses during a repair.
const SECOND: [Role; 8] = [
    Role::Served,
    Role::Again,
    Role::Answer,
    Role::Reminder,
    Role::Ask,
    Role::Fetch,
    Role::Fetched,
    Role::Original,
];
const SECOND_WHY: &str = "the paper: any loss leaves a part at the server or a worker without its result, \
                          and either of them starts the reminders again";

const WORKER_WHY: &str = "the text does not state the pool's memory for packets in flight, nor which contest \
                          decides a task's type. Knobs: memory and the first contest: 2 MB and the first \
                          contest give the printed ratio; by the worst contest no memory gives it, since a \
                          task that loses one sends more packets";
const SERVER_WHY: &str = "a task without a contest has no packet at the server unless it is repaired, so it \
                          has nothing to lose there. Knob: where complete sums become results; if they pass \
                          the server, as ATP's do, all types lose packets there, and by the first contest \
                          within ten points of the printed number";

/// Of all seeds of a point.
struct Point {
    name: String,
    setting: Setting,
    cases: Vec<Vec<Case>>,
}

impl Point {
    fn new(name: String, setting: Setting) -> Self {
        Self { name, setting, cases: Vec::new() }
    }

    /// A value of each seed.
    fn each(&self, of: impl Fn(&[Case]) -> f64) -> Vec<f64> {
        self.cases.iter().map(|cases| of(cases)).collect()
    }
}

fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Milliseconds from each loss of this role until every rank has its result; 0 if all had it.
fn times(cases: &[Case], role: Role) -> Vec<f64> {
    let of = |case: &Case| {
        let lost = case.lost.iter().find(|&&(lost, _)| lost == role);
        lost.map(|&(_, at)| case.ends.saturating_sub(at) as f64 / 1e9)
    };
    cases.iter().filter_map(of).collect()
}

fn having(cases: &[Case], role: Role) -> impl Iterator<Item = &Case> {
    cases.iter().filter(move |case| case.lost.iter().any(|&(lost, _)| lost == role))
}

/// How losses of one role are repaired, and at what cost.
fn repairs(figure: &mut Figure, point: &Point, role: Role, says: &'static str) {
    let name = point.name.as_str();
    let count = point.each(|cases| having(cases, role).count() as f64);
    figure.rows.push(Row::of(name, "where", &count, "PSNs").because(says));
    if count.iter().all(|&count| count == 0.0) {
        return;
    }
    for (what, part) in [("half are repaired within", 0.5), ("99 % within", 0.99)] {
        let values = point.each(|cases| quantile(&times(cases, role), part));
        figure.rows.push(Row::of(name, what, &values, "ms"));
    }
    let packets = point.each(|cases| {
        let packets = having(cases, role).map(|case| f64::from(case.packets)).sum::<f64>();
        packets / having(cases, role).count().max(1) as f64
    });
    figure.rows.push(Row::of(name, "packets sent for that", &packets, "each"));
    for repair in Repair::ALL {
        let values = point.each(|cases| {
            let so = having(cases, role).filter(|case| case.repair == repair).count();
            share(so, having(cases, role).count())
        });
        if values.iter().any(|&value| value > 0.0) {
            figure.rows.push(Row::of(name, repair.name(), &values, "%"));
        }
    }
}

/// Of which tasks the lost packets are: by their worst contests, and by their first.
fn ratio(figure: &mut Figure, point: &Point, printed: Option<[f64; 3]>, why: &'static str) {
    let lost = point.each(|cases| cases.iter().map(|case| case.lost.len()).sum::<usize>() as f64);
    figure.rows.push(Row::of(point.name.as_str(), "lost", &lost, "packets"));
    for (number, task) in Task::ALL.into_iter().enumerate() {
        let values = point.each(|cases| {
            let of = |task: Option<Task>| {
                let so = cases.iter().filter(|case| task.is_none_or(|task| case.task == task));
                so.map(|case| case.lost.len()).sum::<usize>()
            };
            share(of(Some(task)), of(None))
        });
        let row = Row::of(point.name.as_str(), task.name(), &values, "%");
        figure.rows.push(row.printed(printed.map(|printed| printed[number]), why));
    }
    for task in Task::ALL {
        let values = point.each(|cases| {
            let of = |case: &&Case| case.first == task;
            let packets = cases.iter().filter(of).map(|case| case.lost.len()).sum::<usize>();
            share(packets, cases.iter().map(|case| case.lost.len()).sum())
        });
        let name = format!("{}, first contest", task.name());
        figure.rows.push(Row::of(point.name.as_str(), name, &values, "%"));
    }
}

/// All points: of each role, then of each place.
fn points(scope: &Scope) -> (Vec<Point>, Vec<Point>) {
    // VGG16's computation; the cost of a loss shows in the first 4 MB of it.
    let vgg = on(testbed(model(scope, 4.0, 0.5), 4), DSA);
    let first = FIRST.iter().map(|&(role, _)| {
        Point::new(format!("1 % lost: {}", role.name()), Setting { of_role: Some((role, 10_000)), ..vgg })
    });
    // A packet has to be lost before a repair, and repairs are rare.
    let second = SECOND.iter().map(|&role| {
        Point::new(
            format!("1 % lost, 30 %: {}", role.name()),
            Setting { loss: 10_000, of_role: Some((role, 300_000)), ..vgg },
        )
    });
    let roles = first.chain(second).collect();
    let mut places = Vec::new();
    let rates: &[u32] = if scope.quick { &[1000] } else { &[100, 1000, 10_000] };
    for (lossy, place) in [(Lossy::OneWorker, "one worker"), (Lossy::Server, "servers")] {
        let at = |name: String, setting: Setting| Point::new(format!("{name} at {place}"), setting);
        // A hundredth of a per cent of the servers' packets is less than a packet.
        for &loss in rates.iter().filter(|&&loss| lossy == Lossy::OneWorker || loss > 100) {
            let name = format!("{} % lost", f64::from(loss) / 10_000.0);
            places.push(at(name, Setting { loss, lossy, ..vgg }));
        }
        let tenth = Setting { loss: 1000, lossy, ..vgg };
        for (memory, megabytes) in [(1 << 21, "2"), (1 << 18, "0.25")] {
            let name = format!("knob: pool of {megabytes} MB, 0.1 % lost");
            places.push(at(name, Setting { memory, ..tenth }));
        }
        if lossy == Lossy::OneWorker {
            let name = |what: &str| format!("knob: {what}, 0.1 % lost");
            places.push(at(name("hosts in lock-step"), Setting { poll_us: 0, ..tenth }));
            places.push(at(name("128 packets in flight"), Setting { in_flight: 128, ..tenth }));
        }
        if lossy == Lossy::Server {
            let results_at = ResultsAt::Server;
            let name = "knob: results made there, 0.1 % lost".to_owned();
            places.push(at(name, Setting { results_at, ..tenth }));
        }
    }
    (roles, places)
}

/// Lost packets, their tasks, their repair, and its cost.
pub(super) fn figure(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: scope.seeds(3, 1), ..Figure::default() };
    let (roles, places) = points(scope);
    let split = roles.len();
    let mut points: Vec<Point> = roles.into_iter().chain(places).collect();
    let seeds = figure.seeds;
    let all: Vec<Setting> = points
        .iter()
        .flat_map(|point| (0..seeds).map(|seed| Setting { seed: seed + 1, ..point.setting }))
        .collect();
    let made = scope.map(&all, |setting| Ok(watched(setting, true)?.cases))?;
    for (point, cases) in points.iter_mut().zip(made.chunks(usize::try_from(seeds)?)) {
        point.cases = cases.to_vec();
    }
    let says = FIRST.into_iter().chain(SECOND.into_iter().map(|role| (role, SECOND_WHY)));
    let mut lines = Vec::new();
    for (point, (role, says)) in points.iter().zip(says) {
        repairs(&mut figure, point, role, says);
        let times: Vec<f64> = point.cases.iter().flat_map(|cases| times(cases, role)).collect();
        if !times.is_empty() {
            lines.push((role.name().to_owned(), distribution(times)));
        }
    }
    for point in &points[split..] {
        let stated = !point.name.starts_with("knob");
        let (printed, why) = match point.setting.lossy {
            Lossy::Server => ([71.4, 14.3, 14.3], SERVER_WHY),
            Lossy::Every | Lossy::OneWorker => ([80.0, 10.0, 10.0], WORKER_WHY),
        };
        ratio(&mut figure, point, stated.then_some(printed), why);
    }
    figure.curves =
        Some(Curves { x: "time from a loss to the last rank's result, ms", y: "share of losses", lines });
    Ok(figure)
}
