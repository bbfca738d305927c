use super::*;

fn config(main_core: usize, cores: &[usize], float: bool) -> EalConfig {
    EalConfig { main_core, cores: cores.to_vec(), float, ..EalConfig::default() }
}

#[test]
fn each_lcore_is_pinned_to_its_core() {
    assert_eq!(lcores(&config(3, &[5, 4], false)), "0@3,1@5,2@4");
    assert_eq!(lcores(&config(0, &[], false)), "0@0");
}

#[test]
fn floating_lcores_share_each_core_once() {
    assert_eq!(lcores(&config(1, &[0, 1, 1], true)), "(0,1,2,3)@(0,1)");
}

#[test]
fn the_kernels_list_is_understood() {
    assert_eq!(parse_list("\t0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
    assert!(parse_list("").is_empty());
}

#[test]
fn cores_that_cannot_work_are_refused_by_name() {
    let missing = check_cores(&config(0, &[9], false), &[0, 1]);
    assert!(matches!(missing, Err(EalError::CoreUnavailable { core: 9, .. })));
    let twice = check_cores(&config(0, &[1, 1], false), &[0, 1]);
    assert!(matches!(twice, Err(EalError::CoreTwice { core: 1 })));
    assert!(check_cores(&config(0, &[1, 1], true), &[0, 1]).is_ok());
    assert!(check_cores(&config(1, &[0, 1], false), &[0, 1]).is_ok());
    let many = check_cores(&config(0, &[0; 500], true), &[0, 1]);
    assert!(matches!(many, Err(EalError::TooManyLcores { asked: 501, .. })));
}

#[test]
fn no_hugepages_and_in_memory_never_meet() {
    let words = command_line(&config(0, &[1], false), Memory::Small { megabytes: 256 });
    for word in ["--no-huge", "--no-shconf", "--no-pci", "-m", "256"] {
        assert!(words.iter().any(|has| has == word), "{word} is missing from {words:?}");
    }
    assert!(!words.iter().any(|word| word == "--in-memory"));
}

#[test]
fn the_bus_is_scanned_only_for_devices_that_are_named() {
    let some = EalConfig { pci_allow: vec!["0000:01:00.0".to_owned()], ..EalConfig::default() };
    let words = command_line(&some, Memory::Huge);
    assert!(words.windows(2).any(|pair| pair == ["--allow", "0000:01:00.0"]));
    assert!(!words.iter().any(|word| word == "--no-pci" || word == "--no-huge"));
}

#[test]
fn telemetry_is_off_unless_asked_for() {
    let words = |telemetry| {
        command_line(&EalConfig { telemetry, ..EalConfig::default() }, Memory::Small { megabytes: 256 })
    };
    let off = "--no-telemetry".to_owned();
    assert!(words(false).contains(&off) && !words(true).contains(&off));
}
