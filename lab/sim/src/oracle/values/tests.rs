use super::*;

const ELEMENTS: usize = 1000;
const F32: Values = Values { element: Element { dtype: DType::F32, op: Op::Sum }, rough: true };
const F64: Values = Values { element: Element { dtype: DType::F64, op: Op::Sum }, rough: true };

fn takes(ranks: u16, take: u32) -> Vec<Contributor> {
    (0..ranks).map(|rank| Contributor { job: 7, rank, take }).collect()
}

/// An element's bytes if contributions are added one after the other in this order, as kernels do.
fn added(values: Values, order: &[Contributor], index: usize) -> Vec<u8> {
    let contributions = order.iter().map(|&who| {
        let mut bytes = Vec::new();
        values.contribute(who, 1, index, &mut bytes);
        bytes
    });
    let singles = |bytes: Vec<u8>| f32::from_le_bytes(bytes.try_into().unwrap_or_default());
    let doubles = |bytes: Vec<u8>| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
    match values.element.dtype {
        DType::F32 => contributions.map(singles).sum::<f32>().to_le_bytes().to_vec(),
        _ => contributions.map(doubles).sum::<f64>().to_le_bytes().to_vec(),
    }
}

fn fits(values: Values, takes: &[Contributor], index: usize, got: &[u8]) -> bool {
    values.fits(takes.iter().copied(), 1, index, got)
}

/// Orders of the contributions: begun at each of them, forwards and backwards.
fn orders(takes: &[Contributor]) -> Vec<Vec<Contributor>> {
    let begun_at = |first: usize| [&takes[first..], &takes[..first]].concat();
    let forwards = (0..takes.len()).map(begun_at);
    let backwards = (0..takes.len()).map(|first| begun_at(first).into_iter().rev().collect());
    forwards.chain(backwards).collect()
}

#[test]
fn another_order_of_additions_changes_the_bits_of_most_elements() {
    for values in [F32, F64] {
        for ranks in 3..=8 {
            let orders = orders(&takes(ranks, 1));
            let mut differ = 0;
            for index in 0..ELEMENTS {
                let first = added(values, &orders[0], index);
                differ += orders.iter().filter(|order| added(values, order, index) != first).count();
            }
            // Among them are that order itself and the one in which only the first two have changed places.
            let all = ELEMENTS * orders.len();
            assert!(differ > all / 2, "{values:?}, {ranks} ranks: {differ} of {all}");
        }
    }
}

#[test]
fn any_order_of_additions_is_taken() {
    for values in [F32, F64] {
        for ranks in 3..=8 {
            let takes = takes(ranks, 1);
            for order in orders(&takes) {
                for index in 0..ELEMENTS {
                    let sum = added(values, &order, index);
                    assert!(fits(values, &takes, index, &sum), "{values:?}, {ranks} ranks, element {index}");
                }
            }
        }
    }
}

/// Holds R11.1 of protocol.md.
#[test]
fn what_is_missing_doubled_or_stale_is_found() {
    let whole = |dtype, op| Values { element: Element { dtype, op }, rough: false };
    for values in [F32, F64, whole(DType::F32, Op::Sum), whole(DType::F64, Op::Sum)] {
        for ranks in 3..=8 {
            let (takes, earlier) = (takes(ranks, 2), takes(ranks, 1));
            let mut unnoticed = [0; 3];
            for index in 0..ELEMENTS {
                let one = index % takes.len();
                let mut wrong = [takes.clone(), takes.clone(), takes.clone()];
                wrong[0].remove(one);
                wrong[1].push(takes[one]);
                wrong[2][one] = earlier[one];
                for (count, order) in unnoticed.iter_mut().zip(&wrong) {
                    *count += u32::from(fits(values, &takes, index, &added(values, order, index)));
                }
            }
            // Two takes may have the same value of an element by chance.
            let [missing, doubled, stale] = unnoticed;
            assert!((missing, doubled) == (0, 0) && stale < 2, "{values:?}, {ranks} ranks: {unnoticed:?}");
        }
    }
}
