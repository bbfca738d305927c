use super::*;

#[test]
fn an_interface_belongs_to_the_device_that_is_nearest() {
    let nearest = |link| nearest_pci(Path::new(link));
    assert_eq!(nearest("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0"), Some("0000:00:03.0"));
    assert_eq!(nearest("../../devices/pci0000:00/0000:00:01.1/0000:01:00.0/net/e1"), Some("0000:01:00.0"));
    assert_eq!(nearest("../../devices/virtual/net/lo"), None);
}
