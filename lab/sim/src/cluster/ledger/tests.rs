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
        (0..19).for_each(|number| ledger.sent(rank, number));
    }
    assert_eq!(leave(&mut ledger, 4, &[(0, 0), (0, 18), (4, 0), (4, 18)]), Ok(()));
    assert!(leave(&mut ledger, 1, &[(0, 18)]).is_err_and(|why| why.contains("2 have left")));
    assert!(leave(&mut ledger, 2, &[(1, 5), (1, 5)]).is_err_and(|why| why.contains("2 have left")));
    assert!(leave(&mut ledger, 3, &[(2, 5), (2, 6)]).is_err_and(|why| why.contains("2 are inside")));
    let all: Vec<_> = (0..19).map(|number| (3, number)).collect();
    assert_eq!(leave(&mut ledger, 19, &all), Ok(()));
    ledger.sent(3, 19);
    assert_eq!(leave(&mut ledger, 1, &[(3, 19)]), Ok(()), "its digit comes round");
}
