//! The test vectors of `docs/protocol.md`: keys by its text, datagrams by the crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aegis::aegis128x4::Aegis128X4;
use hkdf::Hkdf;
use pascaline_seal::{Cipher, Holder, JobKeys, LONGER, MemberEnd, Opened, Protection};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{self, Element, Header, Kind};
use pascaline_wire::trailer::{Bitmap, Trailer};
use sha2::Sha256;

use crate::common::invariants::{JOB, RANK, SALT, SESSION, secret};

const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");
const COUNTERS: [(&str, u64); 3] =
    [("gradient", 1), ("ack", 0x0123_4567_89ab_cdef), ("result", 0x0200_0000_0000_0005)];

/// Names and bytes: a line begins with the name, and is continued by lines that begin with two spaces.
fn vectors() -> BTreeMap<&'static str, String> {
    let block = DOCUMENT.split_once("```seals\n").expect("the vectors of seals").1;
    let mut vectors = BTreeMap::new();
    let mut last = "";
    for line in block.split_once("```").expect("an end").0.lines() {
        let (name, bytes) = line.split_once(": ").unwrap_or((last, line));
        last = name;
        vectors.entry(name).or_insert_with(String::new).push_str(bytes.trim());
    }
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string");
        text
    })
}

/// What the document says of X(k; a, b, …).
fn expand<const BYTES: usize>(from: &[u8], what: &[&[u8]]) -> [u8; BYTES] {
    let lengths: Vec<u8> = what.iter().map(|part| u8::try_from(part.len()).unwrap()).collect();
    let info = [b"pascaline seal 1", &lengths[..], &what.concat()].concat();
    let mut bytes = [0; BYTES];
    Hkdf::<Sha256>::from_prk(from).unwrap().expand(&info, &mut bytes).unwrap();
    bytes
}

/// R and Q.
fn parts() -> [[u8; 32]; 2] {
    let (job, rank) = (JOB.to_be_bytes(), RANK.to_be_bytes());
    let (k, _) = Hkdf::<Sha256>::extract(Some(b"pascaline seal 1"), secret().bytes());
    [expand(&k, &[b"rank", &job, &rank]), expand(&k, &[b"results", &job])]
}

/// The key of each vector, and `of`.
fn keys(protection: Protection) -> BTreeMap<&'static str, ([u8; 16], u64)> {
    let ([r, q], way) = (parts(), protection.name().as_bytes());
    BTreeMap::from([
        ("gradient", (expand(&r, &[b"up", way]), SESSION)),
        ("ack", (expand(&r, &[b"down", way]), SESSION)),
        ("result", (expand(&q, &[b"salt", &SALT.to_be_bytes(), way]), 0)),
    ])
}

fn ciphers(protection: Protection) -> BTreeMap<&'static str, Cipher> {
    let job = JobKeys::new(&secret(), JOB, protection);
    let rank = job.rank(RANK);
    BTreeMap::from([("gradient", rank.up), ("ack", rank.down), ("result", job.results(SALT))])
}

fn plain(name: &str) -> Vec<u8> {
    let (kind, body) = match name {
        "ack" => {
            let answers = Some(Action::Join);
            let ack = Control { status: Status::Ok, answers, ..Control::request(Action::Ack, SESSION) };
            let ack = Control { number: 2, payload: 1416, window: 256, joined: 2, ..ack };
            (Kind::Control, ack.with_salt(SALT).to_bytes().to_vec())
        }
        "gradient" => (Kind::Gradient, vec![0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]),
        _ => {
            let mut bitmap = Bitmap::new(2).unwrap();
            assert!((0..2).all(|rank| bitmap.insert(rank)));
            let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
            let mut body = vec![0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0];
            body.resize(8 + trailer.emitted_len(), 0);
            trailer.emit(&mut body[8..]).unwrap();
            (Kind::Result, body)
        }
    };
    let about = Header::about(kind, Element::F32_SUM, JOB, 3);
    let flags = if kind == Kind::Result { pascaline_wire::Flags::TRAILER } else { about.flags };
    let count = u16::from(kind == Kind::Gradient) + 2 * u16::from(kind == Kind::Result);
    let mut bytes = vec![0; header::LEN];
    let psn = if kind == Kind::Control { 0 } else { 7 };
    Header { flags, rank: RANK, psn, fan_in: 2, count, ..about }.emit(&mut bytes).unwrap();
    [bytes, body].concat()
}

fn sealed(name: &str, counter: u64, protection: Protection) -> Vec<u8> {
    let mut bytes = plain(name);
    let len = bytes.len();
    bytes.resize(len + LONGER, 0);
    let (_, of) = keys(protection)[name];
    let len = ciphers(protection)[name].seal(of, counter, &mut bytes, len).unwrap();
    bytes.truncate(len);
    bytes
}

/// Holds R14.8 of protocol.md.
#[test]
fn the_documents_vectors_are_these() {
    let [r, q] = parts();
    let mut lines = vec![
        ("secret".to_owned(), hex(secret().bytes())),
        ("R".to_owned(), hex(&r)),
        ("Q".to_owned(), hex(&q)),
    ];
    for (name, counter) in COUNTERS {
        lines.push((name.to_owned(), hex(&plain(name))));
        for protection in Protection::ALL {
            let (key, _) = keys(protection)[name];
            lines.push((format!("{name}, key, {}", protection.name()), hex(&key)));
            lines.push((format!("{name}, {}", protection.name()), hex(&sealed(name, counter, protection))));
        }
    }
    let vectors = vectors();
    for (name, bytes) in &lines {
        assert_eq!(vectors.get(&name[..]), Some(bytes), "{name}: of all {lines:#?}");
    }
    assert_eq!(vectors.len(), lines.len());
}

/// The tag as the text has it, with the cipher's library and nothing of this crate.
#[test]
fn the_text_gives_the_same_tags() {
    for protection in Protection::ALL {
        for (name, counter) in COUNTERS {
            let sealed = sealed(name, counter, protection);
            let (key, of) = keys(protection)[name];
            let (before, tag) = sealed[..sealed.len() - 2].split_at(sealed.len() - 18);
            let trailer = &sealed[sealed.len() - 2..];
            let mut before = before.to_vec();
            before[6..8].copy_from_slice(trailer);
            before[18..20].fill(0);
            let length = usize::from(u16::from_be_bytes([trailer[0], trailer[1]]));
            let encrypts = protection == Protection::Encrypt && name != "ack";
            let payload = 22..if encrypts { sealed.len() - length } else { 22 };
            let mut message = before[payload.clone()].to_vec();
            before.drain(payload);
            let nonce = [of.to_be_bytes(), counter.to_be_bytes()].concat();
            let cipher = Aegis128X4::<16>::new(&key, nonce[..].try_into().unwrap());
            cipher.decrypt_in_place(&mut message, tag.try_into().unwrap(), &before).unwrap();
            assert!(!encrypts || message == [0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0]);
        }
    }
}

#[test]
fn both_ends_open_them() {
    for protection in Protection::ALL {
        let mut end = MemberEnd::new(Holder::of(&secret(), JOB, RANK, protection), SESSION);
        for (name, counter) in [COUNTERS[1], COUNTERS[2]] {
            let mut bytes = sealed(name, counter, protection);
            let len = end.open(&mut bytes).unwrap();
            assert_eq!(bytes[..len], plain(name));
        }
        let mut bytes = sealed("gradient", 1, protection);
        let len = plain("gradient").len();
        let up = &ciphers(protection)["gradient"];
        assert_eq!(up.open(SESSION, &mut bytes), Ok(Opened { len, counter: 1 }));
        assert_eq!(bytes[..len], plain("gradient"));
    }
}
