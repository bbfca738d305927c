use std::fs::{self, Permissions};

use super::*;

/// A directory of its own, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("pascaline-secret-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        Self(place)
    }

    fn file(&self, content: &str, mode: u32) -> PathBuf {
        let file = self.0.join("key");
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_new_key_is_its_owners_alone_and_is_never_replaced() {
    let place = Place::new("new");
    let file = place.0.join("key");
    Secret::create(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let first = Secret::read(&file).unwrap();
    let told = Secret::create(&file).unwrap_err().to_string();
    assert!(told.contains("there is one already\n  remedy: "), "{told}");
    assert!(*Secret::read(&file).unwrap().0 == *first.0);
    assert_eq!(format!("{first:?}"), "Secret(..)");
}

#[test]
fn each_fault_of_a_file_has_its_place_and_a_remedy() {
    let place = Place::new("faults");
    let good = STANDARD.encode([1; 32]);
    let told = |file: &Path| {
        let told = Secret::read(file).unwrap_err().to_string();
        assert!(told.starts_with(&format!("key file {}: ", file.display())) && told.contains("\n  remedy: "));
        told
    };
    assert!(told(&place.0.join("none")).contains("No such file"));
    assert!(told(&place.0).contains("not a regular file"));
    for mode in [0o640, 0o604, 0o620] {
        assert!(told(&place.file(&good, mode)).contains(&format!("(mode 0{mode:o})")));
    }
    assert!(told(&place.file("spaces are none", 0o600)).contains("not base64"));
    assert!(told(&place.file(&STANDARD.encode([1; 31]), 0o600)).contains("31 bytes, at least 32"));
    assert!(told(&place.file("", 0o600)).contains("0 bytes"));
    let file = place.file(&format!("{good}\r\n \n"), 0o400);
    assert!(*Secret::read(&file).unwrap().0 == *Secret::new(&[1; 32]).unwrap().0);
}

#[test]
fn a_ranks_own_file_proves_that_rank_alone() {
    let place = Place::new("rank");
    let (file, whole) = (place.0.join("rank3"), place.file(&STANDARD.encode([7; 32]), 0o600));
    Secret::read(&whole).unwrap().create_of_rank(&file, 1, 3).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let read = |file, rank| Holder::read(file, 1, rank, Protection::Mac);
    let sealed = |holder: &Holder| {
        let mut bytes = [0; 22 + 28];
        holder.keys().up.seal(1, 1, &mut bytes, 22).map(|_| bytes)
    };
    let (own, by_job) = (read(&file, 3).unwrap(), read(&whole, 3).unwrap());
    assert_eq!(sealed(&own), sealed(&by_job));
    assert!(sealed(&own).is_some() && sealed(&read(&whole, 2).unwrap()) != sealed(&own));
    let told = |told: Result<Holder, KeyError>| told.unwrap_err().to_string();
    let other = told(read(&file, 2));
    assert!(other.contains("the key of rank 3 of job 1, not of rank 2 of job 1\n  remedy: "), "{other}");
    assert!(told(read(&place.file("rank 3 of job 1: AAAA", 0o600), 3)).contains("3 bytes"));
    let told = Secret::read(&file).unwrap_err().to_string();
    assert!(told.contains("the key of one rank (rank 3 of job 1)"), "{told}");
}
