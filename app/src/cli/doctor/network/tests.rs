use super::*;

const CLOSED: &str = "chain input {\n  type filter hook input priority filter; policy drop;\n  RULE\n }";

#[test]
fn rules_of_both_kinds_are_understood() {
    let closed = |rule: &str| judge(&CLOSED.replace("RULE", rule), 16420);
    assert_eq!(closed(""), Verdict::NotMentioned);
    assert_eq!(closed("tcp dport 16420 accept"), Verdict::NotMentioned);
    assert_eq!(closed("udp dport 16420 accept"), Verdict::Open);
    assert_eq!(closed("udp dport { 53, 16420 } accept"), Verdict::Open);
    assert_eq!(closed("udp dport 16000-17000 counter packets 0 bytes 0 accept"), Verdict::Open);
    assert_eq!(closed("udp dport 1642 accept"), Verdict::NotMentioned);
    assert_eq!(judge("", 16420), Verdict::Open);
    assert_eq!(judge("udp dport 16420 drop", 16420), Verdict::Refuses);
    assert_eq!(
        judge(":INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 16420 -j ACCEPT", 16420),
        Verdict::Open
    );
    assert_eq!(judge(":INPUT DROP [0:0]", 16420), Verdict::NotMentioned);
    assert_eq!(
        judge(":INPUT ACCEPT [0:0]\n-A INPUT -p udp --dport 16420 -j REJECT", 16420),
        Verdict::Refuses
    );
}
