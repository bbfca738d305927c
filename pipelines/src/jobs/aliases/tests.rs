use super::*;

#[test]
fn a_number_says_whose_it_is_until_its_place_is_needed() {
    let aliases = Aliases::new(u32::MAX - 1);
    let drawn: Vec<u32> = (0..4).map(|rank| aliases.draw(rank, 70 + u32::from(rank))).collect();
    assert_eq!(drawn, [u32::MAX - 1, u32::MAX, 0, 1]);
    for (rank, number) in (0..).zip(drawn) {
        assert_eq!(aliases.whose(number), Some((rank, 70 + u32::from(rank))));
        assert_eq!(aliases.whose(number.wrapping_add(4096)), None, "not drawn yet");
    }
    for _ in 0..REMEMBERED - 4 {
        aliases.draw(9, 9);
    }
    assert_eq!(aliases.whose(u32::MAX - 1), Some((0, 70)));
    aliases.draw(9, 9);
    assert_eq!(aliases.whose(u32::MAX - 1), None, "overwritten");
}

#[test]
fn what_was_never_drawn_is_nobodys() {
    let aliases = Aliases::new(0);
    assert!((0..70_000).all(|number| aliases.whose(number).is_none()));
    assert_eq!(Aliases::default().whose(0), None);
}
