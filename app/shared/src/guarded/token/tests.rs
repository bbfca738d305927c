use super::*;

#[test]
fn only_the_whole_token_is_the_token() {
    let token = Token(b"0123456789abcdef".to_vec());
    for good in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef", "BEARER 0123456789abcdef"] {
        assert!(token.admits(good.as_bytes()), "{good}");
    }
    for bad in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer 0123456789abcde",
        "Bearer 0123456789abcdeF",
        "Bearer 0123456789abcdef0",
        "Bearer  0123456789abcdef",
        "Basic 0123456789abcdef",
        "0123456789abcdef",
    ] {
        assert!(!token.admits(bad.as_bytes()), "{bad}");
    }
    assert_eq!(format!("{token:?}"), "Token(…)");
}
