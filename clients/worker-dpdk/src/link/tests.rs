use super::*;

/// For any MTU of the port, the offered payload has room, and so has its result.
#[test]
fn packets_have_room() {
    for longest in (100..=70_000).step_by(100) {
        let (room, most) = buffers(longest);
        assert!(room >= 2048 && ETHERNET + usize::from(most) + trailer::BITMAP_LEN <= usize::from(room));
        assert!(longest > 32_700 || usize::from(room) >= longest, "{longest}");
    }
}
