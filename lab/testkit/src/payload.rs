//! Payloads and trailers as bytes, and back.

use pascaline_wire::header::Header;
use pascaline_wire::trailer::{Bitmap, Trailer};

/// The payload of these values.
#[must_use]
pub fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values of a payload, which must be whole elements.
#[must_use]
pub fn values(payload: &[u8]) -> Vec<i32> {
    let (values, rest) = payload.as_chunks::<4>();
    assert!(rest.is_empty(), "a payload is whole elements");
    values.iter().map(|value| i32::from_le_bytes(*value)).collect()
}

/// The trailer that names these of `fan_in` ranks.
#[must_use]
pub fn trailer(ranks: &[u16], fan_in: u16) -> Vec<u8> {
    let mut bitmap = Bitmap::new(fan_in).expect("a legal rank count");
    ranks.iter().for_each(|&rank| assert!(bitmap.insert(rank)));
    emitted(&Trailer { bitmap: Some(bitmap), ..Trailer::default() })
}

/// A trailer's bytes.
#[must_use]
pub fn emitted(trailer: &Trailer) -> Vec<u8> {
    let mut bytes = vec![0; trailer.emitted_len()];
    trailer.emit(&mut bytes).expect("room for the trailer");
    bytes
}

/// The ranks in a bitmap.
#[must_use]
pub fn ranks(bitmap: &Bitmap) -> Vec<u16> {
    (0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).collect()
}

/// The contents behind a header: values, and the ranks that a trailer names.
#[must_use]
pub fn contents(header: &Header, body: &[u8]) -> (Vec<i32>, Option<Vec<u16>>) {
    let (payload, trailer) = header.payload(body).expect("the appliance sends what it would accept");
    (values(payload), trailer.and_then(|trailer| trailer.bitmap).map(|bitmap| ranks(&bitmap)))
}
