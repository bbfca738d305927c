use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: OlafArgs,
}

fn trainer(more: &[&str]) -> Trainer {
    let common = ["olaf", "--appliance", "127.0.0.1", "--job", "1", "--rank", "0", "--ranks", "3"];
    let args = Command::try_parse_from(common.iter().chain(more)).unwrap().args;
    Trainer::new(&args, 7)
}

fn times(more: &[&str]) -> Vec<f64> {
    let mut trainer = trainer(more);
    let mut times = Vec::new();
    while let Some(at) = trainer.next() {
        times.push(1e3 * at.as_secs_f64());
        trainer.train();
    }
    times
}

#[test]
fn updates_come_when_they_should() {
    assert_eq!(times(&["--updates", "4", "--in-phase"]), [0.0, 100.0, 200.0, 300.0]);
    let phased = times(&["--updates", "100"]);
    assert!(phased[0] > 0.0 && phased[0] < 100.0);
    assert!((phased[99] - phased[0] - 9900.0).abs() < 1e-6);
    let jittered = times(&["--updates", "1000", "--in-phase", "--jitter", "0.5"]);
    let off: Vec<f64> = (0_u32..).zip(&jittered).map(|(n, at)| at - 100.0 * f64::from(n)).collect();
    assert!(off[1..].iter().all(|off| (-50.0..=50.0).contains(off)));
    assert!(off.iter().any(|off| *off < -40.0) && off.iter().any(|off| *off > 40.0));
    let poisson = times(&["--updates", "4000", "--poisson"]);
    let mean = poisson[3999] / 4000.0;
    assert!((94.0..106.0).contains(&mean), "{mean}");
    let short = poisson.windows(2).filter(|pair| pair[1] - pair[0] < 100.0).count();
    assert!((2400..2660).contains(&short), "1 − 1/e of the intervals are below the mean: {short}");
}

#[test]
fn rewards_follow_their_curves() {
    let rewards = |more: &[&str]| {
        let mut trainer = trainer(&[&["--updates", "200"], more].concat());
        (0..200).map(|_| trainer.train().1).collect::<Vec<_>>()
    };
    let rising = rewards(&[]);
    assert!(rising[..10].iter().all(|reward| *reward < 45.0), "{rising:?}");
    assert!(rising[190..].iter().all(|reward| (175.0..=200.0).contains(reward)), "{rising:?}");
    assert!(rewards(&["--reward", "steady"]).windows(2).all(|pair| (pair[0] - pair[1]).abs() < 1e-6));
    let random = rewards(&["--reward", "random"]);
    assert!(random.iter().any(|reward| *reward < 50.0) && random.iter().any(|reward| *reward > 150.0));
}
