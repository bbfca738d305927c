//! Ciphers on single packets, one after the other, and the seals that are made of one.

use std::hint::black_box;
use std::time::Instant;

use aegis::aegis128l::Aegis128L;
use aegis::aegis128x2::Aegis128X2;
use aegis::aegis128x4::Aegis128X4;
use anyhow::{Context as _, ensure};
use pascaline_seal::{Cipher, JobKeys, LONGER, Protection, Secret};
use pascaline_shared::println;
use pascaline_wire::VERSION;
use pascaline_wire::header::{self, Kind};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde::Serialize;

use crate::bench::fixture::median;
use crate::bench::pool::nanos;

/// Payload bytes; a header comes on top. None: an Ack to a contribution; 72: the body of a control packet.
const LENGTHS: [usize; 6] = [0, 72, 256, KIBIBYTE, 1400, 9000];
pub(super) const KIBIBYTE: usize = 1024;
/// Bytes of a turn's packets, which lie in the second-level cache.
const RESIDENT: usize = 256 << 10;
/// Bytes authenticated beside an encrypted payload: the header, and the beginning of the seal.
const BESIDE: usize = header::LEN + 10;
const KEY: [u8; 16] = [7; 16];
const SESSION: u64 = 0x1234_5678_9abc_def0;

/// Nanoseconds for one packet.
#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    cipher: &'static str,
    bytes: usize,
    /// A tag over header and payload.
    tag_ns: f64,
    /// A tag, and the payload encrypted.
    encrypt_ns: f64,
}

/// Nanoseconds for one packet, of sealing a whole datagram and of opening it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Sealed {
    protection: &'static str,
    bytes: usize,
    seal_ns: f64,
    open_ns: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    ciphers: Vec<Row>,
    seals: Vec<Sealed>,
}

impl Report {
    /// The library's time for a tag of the cipher that seals.
    pub(super) fn tag_ns(&self, bytes: usize) -> f64 {
        let found = self.ciphers.iter().find(|row| row.cipher == OURS && row.bytes == bytes);
        found.map_or(0.0, |row| row.tag_ns)
    }

    /// Sealing with a tag, and opening again.
    pub(super) fn seal_and_open_ns(&self, bytes: usize) -> f64 {
        let mac = Protection::Mac.name();
        let found = self.seals.iter().find(|row| row.protection == mac && row.bytes == bytes);
        found.map_or(0.0, |row| row.seal_ns + row.open_ns)
    }

    pub(super) fn print(&self) {
        println!("{:14} {:>6} {:>9} {:>11}   ns per packet", "cipher", "bytes", "tag", "encrypt");
        for Row { cipher, bytes, tag_ns, encrypt_ns } in &self.ciphers {
            println!("{cipher:14} {bytes:6} {tag_ns:9.1} {encrypt_ns:11.1}");
        }
        println!("{:14} {:>6} {:>9} {:>11}", "seals", "bytes", "seal", "open");
        for Sealed { protection, bytes, seal_ns, open_ns } in &self.seals {
            println!("{protection:14} {bytes:6} {seal_ns:9.1} {open_ns:11.1}");
        }
    }
}

/// The one that seals.
const OURS: &str = "AEGIS-128X4";

/// The work on one packet, header and payload, with its number.
type Work = fn(&mut [u8], u64);

fn nonce(number: u64) -> [u8; 16] {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&SESSION.to_be_bytes());
    nonce[8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// A tag, and an encryption, of one of the AEGIS family.
macro_rules! aegis {
    ($cipher:ident) => {
        (
            |packet: &mut [u8], number: u64| {
                let tag: [u8; 16] = $cipher::new(&KEY, &nonce(number)).encrypt_in_place(&mut [], packet);
                black_box(tag);
            },
            |packet: &mut [u8], number: u64| {
                let (header, payload) = packet.split_at_mut(header::LEN);
                let mut beside = [0; BESIDE];
                beside[..header::LEN].copy_from_slice(header);
                let tag: [u8; 16] = $cipher::new(&KEY, &nonce(number)).encrypt_in_place(payload, &beside);
                black_box(tag);
            },
        )
    };
}

/// Nanoseconds of a packet in one pass over all of them.
fn pass(packets: &mut [Vec<u8>], mut act: impl FnMut(&mut [u8], u64)) -> f64 {
    let begun = Instant::now();
    for (packet, number) in packets.iter_mut().zip(1..) {
        act(black_box(packet), number);
    }
    let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    nanos(took) / nanos(packets.len() as u64)
}

/// Packets with so much payload, and this much room behind it.
fn packets(bytes: usize, room: usize) -> Vec<Vec<u8>> {
    let mut packet = vec![0; header::LEN + bytes + room];
    (packet[0], packet[1]) = (VERSION, Kind::Gradient as u8);
    vec![packet; (RESIDENT / (header::LEN + bytes)).clamp(16, 256)]
}

/// Measures all ciphers and seals at all lengths, in turns.
pub(super) fn measure(turns: u32) -> anyhow::Result<Report> {
    let ciphers: [(&str, (Work, Work)); 3] =
        [("AEGIS-128L", aegis!(Aegis128L)), ("AEGIS-128X2", aegis!(Aegis128X2)), (OURS, aegis!(Aegis128X4))];
    let gcm = UnboundKey::new(&AES_128_GCM, &KEY).map(LessSafeKey::new);
    let gcm = gcm.ok().context("a key of AES-128-GCM")?;
    let secret = Secret::new(&[7; pascaline_seal::secret::LEAST]).context("a secret of the least length")?;
    let seals = Protection::ALL.map(|protection| JobKeys::new(&secret, 1, protection).rank(0).up);
    let mut report = Report { ciphers: Vec::new(), seals: Vec::new() };
    for bytes in LENGTHS {
        let (mut plain, mut roomy) = (packets(bytes, 0), packets(bytes, LONGER));
        let mut times = vec![(Vec::new(), Vec::new()); ciphers.len() + 1 + seals.len()];
        for _ in 0..turns {
            let mut found = Vec::new();
            for (_, (tag, encrypt)) in &ciphers {
                found.push((pass(&mut plain, tag), pass(&mut plain, encrypt)));
            }
            found.push(of_gcm(&gcm, &mut plain));
            for cipher in &seals {
                found.push(of_seals(cipher, &mut roomy)?);
            }
            for ((firsts, seconds), (first, second)) in times.iter_mut().zip(found) {
                firsts.push(first);
                seconds.push(second);
            }
        }
        let mut medians = times.into_iter().map(|(first, second)| (median(first), median(second)));
        let names = ciphers.iter().map(|(name, _)| *name).chain(["AES-128-GCM"]);
        for (cipher, (tag_ns, encrypt_ns)) in names.zip(medians.by_ref()) {
            report.ciphers.push(Row { cipher, bytes, tag_ns, encrypt_ns });
        }
        for (protection, (seal_ns, open_ns)) in Protection::ALL.into_iter().zip(medians) {
            report.seals.push(Sealed { protection: protection.name(), bytes, seal_ns, open_ns });
        }
    }
    Ok(report)
}

fn of_gcm(key: &LessSafeKey, plain: &mut [Vec<u8>]) -> (f64, f64) {
    let nonce = |number: u64| {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    };
    let tag = pass(plain, |packet, number| {
        let made = key.seal_in_place_separate_tag(nonce(number), Aad::from(&*packet), &mut []);
        let _ = black_box(made);
    });
    let encrypt = pass(plain, |packet, number| {
        let (header, payload) = packet.split_at_mut(header::LEN);
        let mut beside = [0; BESIDE];
        beside[..header::LEN].copy_from_slice(header);
        let made = key.seal_in_place_separate_tag(nonce(number), Aad::from(beside), payload);
        let _ = black_box(made);
    });
    (tag, encrypt)
}

/// Sealing and opening whole datagrams: afterwards they are as before.
fn of_seals(cipher: &Cipher, roomy: &mut [Vec<u8>]) -> anyhow::Result<(f64, f64)> {
    let (mut sealed, mut opened) = (0, 0);
    let seal = pass(roomy, |packet, number| {
        let len = packet.len() - LONGER;
        sealed += usize::from(cipher.seal(SESSION, number, packet, len).is_some());
    });
    let open = pass(roomy, |packet, _| opened += usize::from(cipher.open(SESSION, packet).is_ok()));
    let whole = sealed == roomy.len() && opened == roomy.len();
    ensure!(whole, "{opened} of {} datagrams could be opened: the measurement is void", roomy.len());
    Ok((seal, open))
}
