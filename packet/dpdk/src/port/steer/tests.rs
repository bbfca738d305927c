use super::*;

/// The hash as devices make it: for each bit of the input that is set, the 32 bits of the key from there on.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
    let window = |at: usize| (0..32).fold(0, |word, next| word << 1 | u32::from(bit(key, at + next)));
    (0..8 * input.len()).filter(|&at| bit(input, at)).fold(0, |hash, at| hash ^ window(at))
}

#[test]
fn the_reference_hash_is_that_of_the_specification() {
    // Microsoft's "Verifying the RSS hash calculation", the first row with ports.
    let key = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
        0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
        0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let (ports, addresses) = ([2794_u16, 1766], [66, 9, 149, 187, 161, 142, 100, 80]);
    let ports: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    assert_eq!(toeplitz(&key, &[&addresses[..], &ports].concat()), 0x51cc_c178);
}

#[test]
fn every_port_comes_to_its_queue_wherever_the_device_puts_it() {
    for (first, count) in [(16_420, 2), (16_420, 4), (16_448, 64), (0xfff0, 16)] {
        let steer = Steer { first, count, ipv4: true, ipv6: true };
        for (len, size) in [(0, 64), (40, 128), (52, 512)] {
            let mut key = Key::new(count, len);
            for queues in [2, 3, 4] {
                let table = table(&steer, queues, size).unwrap();
                // Alone; behind the source port; behind addresses of IPv4, of IPv6.
                for zeros in [0, 2, 10, 34] {
                    for at in 0..count {
                        let input = [&vec![0; zeros][..], &(first + at).to_be_bytes()].concat();
                        let hash = toeplitz(key.bytes(), &input);
                        let entry = hash as usize % usize::from(size);
                        assert_eq!(
                            table[entry],
                            at % queues,
                            "{at} of {count} from {first}, {queues} queues"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_table_that_is_too_small_is_not_used() {
    let steer = Steer { first: 16_448, count: 64, ipv4: true, ipv6: true };
    assert!(table(&steer, 2, 32).is_none());
    assert!(table(&steer, 2, 0).is_none());
    assert!(table(&steer, 2, 1024).is_none());
}
