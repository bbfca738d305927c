use std::path::PathBuf;

use pascaline_seal::Secret;

use core::time::Duration;

use super::*;

fn file(name: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("pascaline-seals-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

fn config(job: u16, trees: usize) -> Config {
    let tree = |at: usize| vec![std::net::SocketAddr::from(([10, 0, 1, 0], 9 + u16::try_from(at).unwrap()))];
    let config = Config::new("10.0.0.1:9".parse().unwrap(), job, 2, 3);
    Config { trees: (1..trees).map(tree).collect(), ..config }
}

#[test]
fn there_is_a_key_for_each_tree_of_each_stream() {
    let (all, own) = (file("all"), file("own"));
    Secret::create(&all).unwrap();
    let config = config(5, 2);
    let sealed = config.clone().sealed(&all, Protection::Mac, 3).unwrap();
    let seals = sealed.seals.clone().unwrap();
    let known = |job| seals.holder(job).is_some();
    assert_eq!([4, 5, 10, 11].map(known), [false, true, true, false]);
    assert_eq!(sealed.check(), Ok(()));
    assert!(sealed.of_streams(3).is_ok_and(|mut streams| streams.all(|stream| stream.check().is_ok())));
    assert_eq!(sealed.of_streams(4).err(), Some(ConfigError::NoKey { job: 11 }));
    assert!(sealed.of_trees().all(|tree| tree.key().is_some()));
    assert_eq!((sealed.longer(), config.longer()), (28, 0));
    assert_eq!(config.check_keys(u16::MAX), Ok(()), "none at all");

    Secret::read(&all).unwrap().create_of_rank(&own, 5, 2).unwrap();
    let only = self::config(5, 1).sealed(&own, Protection::Mac, 1).unwrap();
    assert_eq!(only.check(), Ok(()));
    let several = config.sealed(&own, Protection::Mac, 1).unwrap_err().to_string();
    assert!(several.contains("the key of rank 2 of job 5, not of rank 2 of job 6"), "{several}");
    for file in [all, own] {
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn the_last_jobs_have_no_next_one() {
    let all = file("last");
    Secret::create(&all).unwrap();
    let seals = Seals::read(&all, (u16::MAX, 2), 3, Protection::Encrypt).unwrap();
    std::fs::remove_file(&all).unwrap();
    assert_eq!([u16::MAX - 1, u16::MAX].map(|job| seals.holder(job).is_some()), [false, true]);
    assert_eq!(seals.clone(), seals);
    let other = Seals::of(u16::MAX, seals.holder(u16::MAX).unwrap().clone());
    assert_ne!(seals, other, "secrets are not compared");
}

#[test]
fn a_file_with_another_key_is_read_once() {
    let (first, second) = (file("first"), file("second"));
    Secret::create(&first).unwrap();
    Secret::create(&second).unwrap();
    let seals = Seals::read(&first, (5, 2), 1, Protection::Mac).unwrap();
    let mut watched = seals.key_file(5).unwrap();
    let at = Duration::from_secs;
    let own = watched.poll(at(0)).unwrap().unwrap();
    assert!(&own == seals.holder(5).unwrap());
    assert!(watched.poll(at(1)).is_none(), "as it was");
    std::fs::rename(&second, &first).unwrap();
    assert!(watched.poll(at(1)).is_none(), "not yet");
    assert!(watched.poll(at(2)).unwrap().unwrap() != own);
    assert!(watched.poll(at(3)).is_none());
    std::fs::write(&first, "no key").unwrap();
    assert!(watched.poll(at(4)).unwrap().is_err_and(|why| why.to_string().contains("not base64")));
    assert!(watched.poll(at(5)).is_none(), "told once");
    std::fs::remove_file(&first).unwrap();
    assert!(watched.poll(at(6)).is_none());
    assert!(Seals::of(5, own).key_file(5).is_none());
}
