//! Defects of the parameter server.

use pascaline_ps::JobParams;
use pascaline_wire::{Flags, Header, Kind, Own, Trailer, header, round};

use super::Sabotage;

/// Tampers with a packet that the server receives. A second one may come with it.
pub(crate) fn incoming(sabotage: Sabotage, packet: &mut [u8]) -> Option<Vec<u8>> {
    match sabotage {
        Sabotage::ServerCountsTwice => complement(packet),
        Sabotage::ServerForgetsNothing => {
            let (header, _) = Header::parse(packet).ok()?;
            set(packet, &Header { epoch: 0, ..header });
            None
        }
        Sabotage::ServerNeverAsks => {
            let (header, _) = Header::parse(packet).ok()?;
            set(packet, &Header { flags: header.flags.without(Flags::RETRANSMISSION), ..header });
            None
        }
        _ => None,
    }
}

/// Tampers with a packet that the server sends.
pub(crate) fn outgoing(sabotage: Sabotage, packet: &mut [u8], jobs: &[(u16, JobParams)]) {
    let Ok((header, _)) = Header::parse(packet) else { return };
    match sabotage {
        Sabotage::ServerForgetsNothing => {
            let epoch = jobs.iter().find(|(job, _)| *job == header.job).map_or(0, |(_, params)| params.epoch);
            set(packet, &Header { epoch, ..header });
        }
        // As though each sum were the only one.
        Sabotage::ServerNeverAsks if header.kind == Kind::Result => {
            set(packet, &Header { own: Own::vote(round::TAKEN, header.own.wnd_cap()), ..header });
        }
        Sabotage::ServerAlters if header.kind == Kind::Result => packet[header::LEN] ^= 1,
        _ => {}
    }
}

fn set(packet: &mut [u8], header: &Header) {
    if let Some(place) = packet.first_chunk_mut() {
        *place = header.to_bytes();
    }
}

/// The same partial, of all ranks that are not in it.
fn complement(packet: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = Header::parse(packet).ok().filter(|(header, _)| header.kind == Kind::Partial)?;
    let (payload, trailer) = header.payload(body).ok()?;
    let inside = trailer?.bitmap?;
    let mut missing = pascaline_wire::trailer::Bitmap::new(header.fan_in)?;
    for rank in (0..header.fan_in).filter(|&rank| !inside.contains(rank)) {
        let _ = missing.insert(rank);
    }
    let count = header.fan_in - header.count;
    let trailer = Trailer { bitmap: Some(missing), ..Trailer::default() };
    let mut forged = Header { count, flags: header.flags.with(Flags::TRAILER), ..header }.to_bytes().to_vec();
    forged.extend(payload);
    let behind = forged.len();
    forged.resize(behind + trailer.emitted_len(), 0);
    trailer.emit(&mut forged[behind..]).ok()?;
    Some(forged)
}
