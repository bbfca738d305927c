//! The test vectors of `docs/protocol.md`, every one of them, decoded and encoded again.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::protocol;
use pascaline_wire::template::Path;
use pascaline_wire::trailer::{Operation, Operations, RankReport, Seal};
use pascaline_wire::{
    Call, CongestionControl, Element, Flags, Frame, Header, Kind, Malformed, Net, Op, Trailer,
};

use crate::common::{self, hex};

const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");

/// As many as the document has: a vector that is lost to a slip of the pen is missed.
const VECTORS: usize = 68;

struct Vector {
    name: &'static str,
    frame: Vec<u8>,
    /// The lines behind the frame.
    meaning: Vec<&'static str>,
}

fn vectors() -> Vec<Vector> {
    let blocks = DOCUMENT.split("```vector\n").skip(1);
    blocks.map(|rest| parse(rest.split_once("\n```").expect("a block has an end").0)).collect()
}

fn parse(block: &'static str) -> Vector {
    let mut lines = block.lines().peekable();
    let name = lines.next().and_then(|line| line.strip_prefix("name: ")).expect("first the name");
    assert_eq!(lines.next(), Some("frame:"), "{name}: then the frame");
    let mut frame = Vec::new();
    while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
        frame.extend(hex(line.split('#').next().unwrap_or_default()));
    }
    assert!(!frame.is_empty(), "{name}: the frame is empty");
    let meaning: Vec<_> = lines.collect();
    assert!(!meaning.is_empty() && meaning.iter().all(|line| line.contains(": ")), "{name}: {meaning:?}");
    Vector { name, frame, meaning }
}

/// The parsed frame, in the document's words, and the frame that a sender makes of it.
fn decode(bytes: &[u8]) -> Result<(String, Vec<u8>), Malformed> {
    let frame = Frame::parse(bytes)?;
    let ip = match frame.net {
        Net::Ip(ip) => ip,
        Net::OpaqueIp(_, why) => return Err(why),
        other => panic!("{other:?}"),
    };
    assert_eq!(ip.protocol, protocol::UDP);
    let udp = ip.udp(bytes)?;
    let (header, body) = Header::parse(udp.body)?;
    let (payload, trailer) = header.payload(body)?;
    let padding = bytes.len() - udp.offset - udp.body.len();

    let mut text = String::new();
    let tags: Vec<_> = frame.vlan.as_slice().iter().map(|(tpid, tci)| format!("{tpid:04x}/{tci}")).collect();
    let (dst, src, vlan) = (frame.dst, frame.src, or_none(tags));
    writeln!(text, "ethernet: dst={dst} src={src} vlan={vlan}").unwrap();
    write!(text, "udp: src={} dst={} ", ip.src, ip.dst).unwrap();
    write!(text, "src_port={} dst_port={} ", udp.src_port, udp.dst_port).unwrap();
    writeln!(text, "body={} padding={padding}", udp.offset).unwrap();
    describe_header(&mut text, &header);
    let mut rebuilt = if header.kind == Kind::Control {
        let body = Control::parse(payload)?;
        describe_control(&mut text, &body);
        body.to_bytes().to_vec()
    } else {
        let digits: Vec<_> = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "payload: {}", if digits.is_empty() { "none".into() } else { digits.concat() })
            .unwrap();
        payload.to_vec()
    };
    if let Some(trailer) = trailer {
        describe_trailer(&mut text, &trailer);
        rebuilt.extend(common::trailer_bytes(&trailer));
    }
    let path = Path {
        dst_mac: frame.dst,
        src_mac: frame.src,
        vlan: frame.vlan,
        dst: ip.dst,
        src: ip.src,
        dst_port: udp.dst_port,
        src_port: udp.src_port,
        class: 0,
    };
    let mut again = common::build(&path, &header, &rebuilt);
    again.resize(again.len() + padding, 0);
    Ok((text, again))
}

fn describe_header(text: &mut String, header: &Header) {
    let Header { kind: of, flags: bits, element, job, rank, psn, fan_in, count, own, epoch } = *header;
    write!(text, "header: kind={} flags={} ", kind(of), flags(bits)).unwrap();
    write!(text, "element={}/{} job={job} rank={rank} ", element.dtype.name(), op(element.op)).unwrap();
    write!(text, "psn={psn} fan_in={fan_in} count={count} epoch={epoch}").unwrap();
    let cap = own.wnd_cap();
    let own = match of {
        Kind::Gradient | Kind::Partial if !bits.has(Flags::BYPASS) => {
            format!(" priority={} wnd_cap={cap}", own.priority())
        }
        Kind::Gradient | Kind::Partial | Kind::Result | Kind::Reminder | Kind::Fetch => {
            format!(" round={} wnd_cap={cap}", own.round())
        }
        Kind::Update => format!(" origin={}", own.origin()),
        Kind::Ack => format!(" status={} pause={}", own.status().map_or("?", Status::name), own.pause()),
        Kind::Control => String::new(),
    };
    writeln!(text, "{own}").unwrap();
}

fn describe_control(text: &mut String, body: &Control) {
    let Control { answers, number, session, cookie, payload, window, joined, hearing, .. } = *body;
    let Control { congestion, expected, got, before, psn, first, workers, call, bytes, group, .. } = *body;
    let answers = answers.map_or("none", action);
    let congestion = congestion.map_or("none", CongestionControl::name);
    let group = group.map_or("none".to_owned(), |group| group.to_string());
    write!(text, "control: action={} status={} ", action(body.action), body.status.name()).unwrap();
    write!(text, "answers={answers} element={} number={number} ", element(body.element)).unwrap();
    write!(text, "session={session} cookie={cookie} payload={payload} window={window} ").unwrap();
    write!(text, "joined={joined} hearing={} congestion={congestion} ", hearing.name()).unwrap();
    write!(text, "expected={expected} got={got} before={before} psn={psn} first={first} ").unwrap();
    writeln!(text, "workers={workers} bytes={bytes} group={group}{}", called(call)).unwrap();
}

fn describe_trailer(text: &mut String, trailer: &Trailer) {
    if let Some(bitmap) = trailer.bitmap {
        let ranks = (0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).map(|rank| rank.to_string());
        writeln!(text, "bitmap: ranks={} capacity={}", or_none(ranks.collect()), bitmap.capacity()).unwrap();
    }
    if let Some(update) = trailer.update {
        writeln!(text, "update: reward={:?} generated_ns={}", update.reward, update.generated_ns).unwrap();
    }
    if let Some(queue) = trailer.queue {
        let (clusters, capacity, waiting) = (queue.clusters, queue.capacity, queue.waiting);
        writeln!(text, "queue: clusters={clusters} capacity={capacity} waiting={waiting}").unwrap();
    }
    if let Some(Operations { most, differing }) = trailer.operations {
        let [most, differing] = [most, differing].map(|one| {
            let Operation { rank, element: wanted, first, call, bytes } = one;
            format!("{rank},{},{first},{bytes}{}", element(wanted), called(call))
        });
        writeln!(text, "operations: most={most} differing={differing}").unwrap();
    }
    if let Some(ranks) = trailer.ranks {
        let ranks = ranks.as_slice().iter().map(|report| {
            let RankReport { rank, state, silent_ms, behind, port, address } = report;
            format!("{rank}={},{silent_ms},{behind},{port},{address}", state.name())
        });
        writeln!(text, "ranks: {}", ranks.collect::<Vec<_>>().join(" ")).unwrap();
    }
    if let Some(sentence) = trailer.sentence {
        writeln!(text, "sentence: {}", sentence.as_str()).unwrap();
    }
    if let Some(Seal { counter, tag }) = trailer.seal {
        writeln!(text, "seal: counter={counter} tag={tag:032x}").unwrap();
    }
}

fn element(element: Option<Element>) -> String {
    element.map_or("none".to_owned(), |element| format!("{}/{}", element.dtype.name(), op(element.op)))
}

/// Nothing for an allreduce.
fn called(call: Call) -> String {
    if call == Call::ALLREDUCE {
        return String::new();
    }
    format!(" call={}/{}", call.collective.name(), call.argument)
}

fn or_none(items: Vec<String>) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(",") }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Gradient => "gradient",
        Kind::Result => "result",
        Kind::Partial => "partial",
        Kind::Update => "update",
        Kind::Ack => "ack",
        Kind::Reminder => "reminder",
        Kind::Fetch => "fetch",
        Kind::Control => "control",
    }
}

fn flags(flags: Flags) -> String {
    let names = [
        (Flags::ECN_ECHO, "ecn_echo"),
        (Flags::FIN, "fin"),
        (Flags::RETRANSMISSION, "retransmission"),
        (Flags::BYPASS, "bypass"),
        (Flags::OVERFLOW, "overflow"),
        (Flags::TRAILER, "trailer"),
    ];
    or_none(names.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| (*name).to_owned()).collect())
}

fn op(op: Op) -> &'static str {
    match op {
        Op::Sum => "sum",
        Op::Min => "min",
        Op::Max => "max",
        Op::Mean => "mean",
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Join => "join",
        Action::Leave => "leave",
        Action::Reset => "reset",
        Action::SetH => "set_h",
        Action::FBcast => "f_bcast",
        Action::Help => "help",
        Action::Halt => "halt",
        Action::Ack => "ack",
        Action::Serve => "serve",
        Action::Query => "query",
    }
}

#[test]
fn every_vector_is_found() {
    let vectors = vectors();
    assert_eq!(vectors.len(), VECTORS);
    assert_eq!(DOCUMENT.matches("\nname: ").count(), VECTORS, "a block that is not marked as a vector");
    let names: BTreeSet<_> = vectors.iter().map(|vector| vector.name).collect();
    assert_eq!(names.len(), VECTORS, "names are unique");
}

/// Holds R16.1 and R16.2 of protocol.md.
#[test]
fn vectors_decode_to_their_fields_and_encode_to_their_bytes() {
    for Vector { name, frame, meaning } in vectors() {
        match meaning[0].strip_prefix("malformed: ") {
            Some(reason) => {
                let refused = decode(&frame).expect_err(name);
                assert_eq!((refused.name(), meaning.len()), (reason, 1), "{name}");
            }
            None => {
                let (text, again) = decode(&frame).expect(name);
                assert_eq!(text.lines().collect::<Vec<_>>(), meaning, "{name}");
                assert_eq!(again, frame, "{name}");
            }
        }
    }
}

#[test]
fn every_reason_has_a_vector() {
    let reasons: BTreeSet<_> =
        vectors().iter().filter_map(|vector| vector.meaning[0].strip_prefix("malformed: ")).collect();
    assert_eq!(reasons, Malformed::ALL.iter().map(|reason| reason.name()).collect());
}

/// The tables of the document give each code its name; the names here are those of the vectors.
#[test]
fn the_document_names_every_code() {
    let row = |cells: String| assert!(DOCUMENT.contains(&cells), "no row {cells:?}");
    for code in Status::ALL {
        row(format!("| {} | {} |", code as u8, code.name()));
    }
    for code in common::KINDS {
        row(format!("| {} | {code:?} |", code as u8));
    }
    for code in common::REQUESTS {
        assert!(DOCUMENT.contains(&format!("{} {code:?}", code as u8)), "no action {code:?}");
    }
    for code in common::DTYPES {
        row(format!("| {} | {}: ", code as u8, code.name()));
    }
    for code in common::OPS {
        row(format!("| {} | {} |", code as u8, op(code)));
    }
    for reason in Malformed::ALL {
        row(format!("| `{reason}` |"));
    }
    assert!(DOCUMENT.contains(&format!("**{}**", pascaline_wire::DEFAULT_PORT)));
}
