//! What is said of certificates, and which are believed.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

use super::*;

const HERE: [u8; 4] = [10, 0, 0, 1];

/// A certificate that signs itself, for these names.
fn made(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn expired(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
}

fn not_yet(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2901, 1, 1), date_time_ymd(2902, 1, 1));
}

#[test]
fn a_certificate_that_clients_would_refuse_is_told() {
    let about = |cert: CertificateDer<'static>, at: [u8; 4]| objection(&[cert], at.into());
    let says = |cert, text: &str| {
        let said = about(cert, HERE).unwrap_or_default();
        assert!(said.contains(text), "{text}: {said:?}");
    };
    assert_eq!(about(made(&["10.0.0.1"], |_| ()), HERE), None);
    assert_eq!(about(made(&["appliance"], |_| ()), [0; 4]), None, "by any name");
    assert_eq!(about(made(&[], authority), HERE), None, "as `openssl req -x509` makes them");
    says(made(&["appliance"], |_| ()), "is not for 10.0.0.1, but for");
    says(made(&[], |_| ()), "is for no name (subjectAltName)");
    says(made(&["10.0.0.1"], expired), "expired");
    says(made(&["10.0.0.1"], not_yet), "becomes valid in");
    says(made(&[], |params| (authority(params), expired(params)).0), "expired");
    let stranger = made(&["10.0.0.1"], |_| ());
    let said = objection(&[made(&["10.0.0.1"], |_| ()), stranger], HERE.into()).unwrap();
    assert!(said.contains("no certificate of the chain"), "{said}");
}

#[test]
fn the_very_certificate_is_believed_while_it_is_in_force() {
    let judge = |shown: &CertificateDer<'static>, trusted: &CertificateDer<'static>| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates([trusted.clone()]);
        let pinning = Pinning { verifier: verifier(roots).unwrap(), pinned: vec![trusted.clone()] };
        let name = ServerName::try_from("appliance").unwrap();
        pinning.verify_server_cert(shown, &[], &name, &[], UnixTime::now()).is_ok()
    };
    let other = made(&["appliance"], |_| ());
    for (names, change, fine) in [
        (&["appliance"][..], (|_| ()) as fn(&mut CertificateParams), true),
        (&["appliance"], authority, true),
        (&["elsewhere"], |_| (), true),
        (&[], |_| (), true),
        (&[], authority, true),
        (&["appliance"], expired, false),
        (&["appliance"], not_yet, false),
        (&[], |params| (authority(params), expired(params)).0, false),
    ] {
        let cert = made(names, change);
        assert_eq!(judge(&cert, &cert), fine, "{names:?}");
        assert!(!judge(&cert, &other) && !judge(&other, &cert), "{names:?}: that of somebody else");
    }
}
