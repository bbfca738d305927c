use super::*;

#[test]
fn parts_come_back() {
    let key = Key::new(0xfffe, 0x0281, u32::MAX);
    assert_eq!((key.job(), key.generation(), key.psn()), (0xfffe, 0x81, u32::MAX));
    assert!(key.is_of(0x0281) && key.is_of(0x0381) && !key.is_of(0x0282));
    assert_eq!(key.to_bits() >> 56, 0);
    assert_eq!(Key::from_bits(key.to_bits()), key);
}

#[test]
fn a_window_of_a_third_of_the_sets_never_meets_itself() {
    for sets in [4096u32, 3000, 4095] {
        for stride in [1u32, 2, 3, 4, 8] {
            for start in [0u32, 1_000_003, u32::MAX - 100] {
                let mut used = vec![0u8; sets as usize];
                let window = if stride == 1 { sets / 3 } else { sets / 16 };
                for n in 0..window {
                    let key = Key::new(7, 1, start.wrapping_add(n.wrapping_mul(stride)));
                    used[key.place(sets as usize)] += 1;
                }
                assert!(used.iter().all(|&n| n <= 1), "stride {stride} start {start} of {sets}");
            }
        }
    }
}
