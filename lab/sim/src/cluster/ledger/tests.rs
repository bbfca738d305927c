use super::*;

fn leave(ledger: &mut Ledger, count: u16, updates: &[(usize, u32)]) -> Result<(), String> {
    let mut sum = [0.0; 8];
    for &(rank, number) in updates {
        sum.iter_mut().zip(ledger.gradient(rank, number)).for_each(|(sum, value)| *sum += value);
    }
    let header = Header { count, ..Header::about(Kind::Update, pascaline_wire::Element::F32_SUM, 1, 0) };
    let body: Vec<u8> = sum.iter().flat_map(|value| value.to_le_bytes()).collect();
    ledger.departs(&header, &body)
}

#[test]
fn each_update_leaves_once_and_is_counted() {
    let mut ledger = Ledger::new(8, 5);
    for rank in 0..5 {
        (0..12).for_each(|number| ledger.sent(rank, number));
    }
    assert_eq!(leave(&mut ledger, 4, &[(0, 0), (0, 11), (4, 0), (4, 11)]), Ok(()));
    assert!(leave(&mut ledger, 1, &[(0, 11)]).is_err_and(|why| why.contains("2 have left")));
    assert!(leave(&mut ledger, 2, &[(1, 5), (1, 5)]).is_err_and(|why| why.contains("2 have left")));
    assert!(leave(&mut ledger, 3, &[(2, 5), (2, 6)]).is_err_and(|why| why.contains("2 are inside")));
    let all: Vec<_> = (0..12).map(|number| (3, number)).collect();
    assert_eq!(leave(&mut ledger, 12, &all), Ok(()));
    ledger.sent(3, 12);
    assert_eq!(leave(&mut ledger, 1, &[(3, 12)]), Ok(()), "its digit comes round");
    (0..6).for_each(|_| ledger.sent(1, 5));
    assert_eq!(leave(&mut ledger, 8, &[(1, 5); 8]), Ok(()), "more than a digit counts");
    assert_eq!(leave(&mut ledger, 1, &[(1, 6)]), Ok(()), "they were not taken for another");
    assert!(leave(&mut ledger, 7, &[(1, 5); 8]).is_err_and(|why| why.contains("1 are inside")));
    let full = vec![(1, 6); 64];
    assert!(leave(&mut ledger, 7, &full).is_err_and(|why| why.contains("says 7")));
}
