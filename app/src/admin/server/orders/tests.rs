use super::*;

#[test]
fn a_job_is_named_by_number_or_name() {
    assert_eq!(JobKey::new("7".to_owned()), JobKey::Number(7));
    assert_eq!(JobKey::new("65535".to_owned()), JobKey::Number(65535));
    for name in ["65536", "-1", "resnet", "7x", ""] {
        assert_eq!(JobKey::new(name.to_owned()), JobKey::Name(name.to_owned()));
    }
}
