//! No kind of file makes anybody wait, or is read without end.

use super::*;

#[test]
fn only_regular_files_of_bounded_size_are_read() {
    let folder = std::env::temp_dir().join(format!("pascaline-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (short, long, fifo) = (folder.join("short"), folder.join("long"), folder.join("fifo"));
    std::fs::write(&short, "12345678").unwrap();
    std::fs::write(&long, "123456789").unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let refused = [
        (folder.as_path(), "it is a directory"),
        (long.as_path(), "it is longer than 8 bytes"),
        (fifo.as_path(), "it is no regular file"),
        (Path::new("/dev/zero"), "it is no regular file"),
        (Path::new("/nonexistent"), "there is no such file"),
        (&short.join("below"), "Not a directory"),
    ];
    for (path, says) in refused {
        let error = read(path, 8).unwrap_err();
        assert!(error.message.contains(says) && !error.remedy.is_empty(), "{path:?}: {error:?}");
    }
    assert_eq!(read(&short, 8).unwrap(), b"12345678");
    std::fs::remove_dir_all(&folder).unwrap();
}
