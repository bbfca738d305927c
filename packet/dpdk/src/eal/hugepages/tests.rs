use super::*;

fn config(hugepages: Hugepages) -> EalConfig {
    EalConfig { hugepages, memory_mb: 256, ..EalConfig::default() }
}

const NONE: Available = Available { usable_mb: 0, mounted: true, total_mb: None };
const PLENTY: Available = Available { usable_mb: 256, mounted: true, total_mb: None };
const UNMOUNTED: Available = Available { usable_mb: 256, mounted: false, total_mb: None };

#[test]
fn auto_takes_hugepages_only_if_they_suffice() {
    assert_eq!(choose(&config(Hugepages::Auto), &PLENTY).unwrap(), Memory::Huge);
    for available in [NONE, UNMOUNTED] {
        let memory = choose(&config(Hugepages::Auto), &available).unwrap();
        assert_eq!(memory, Memory::Small { megabytes: 256 });
    }
}

#[test]
fn required_hugepages_that_are_missing_are_an_error_with_a_remedy() {
    let text = choose(&config(Hugepages::Require), &UNMOUNTED).unwrap_err().to_string();
    assert!(text.contains("no hugetlbfs is mounted") && text.contains("vm.nr_hugepages=128"), "{text}");
    assert!(choose(&config(Hugepages::Require), &NONE).is_err());
}

#[test]
fn hugepages_can_be_declined() {
    assert_eq!(choose(&config(Hugepages::No), &PLENTY).unwrap(), Memory::Small { megabytes: 256 });
}

#[test]
fn more_than_the_machine_has_is_refused_where_ordinary_pages_would_be_used() {
    let available = Available { total_mb: Some(255), ..NONE };
    let text = choose(&config(Hugepages::Auto), &available).unwrap_err().to_string();
    assert!(text.contains("256 MB") && text.contains("255 MB"), "{text}");
    let available = Available { total_mb: Some(255), ..PLENTY };
    assert_eq!(choose(&config(Hugepages::Auto), &available).unwrap(), Memory::Huge);
}

/// An appliance that runs holds them, and its next start has them.
#[test]
fn reserved_pages_are_no_fewer_than_free_ones() {
    assert!(Available::reserved().usable_mb >= Available::free().usable_mb);
}
