"""Drop reasons and other counters that may name an attack."""

# Malformed frames by layer; then frames that are well-formed, perhaps by chance, and refused.
LAYERS = (
    "truncated",
    "vlan_depth",
    "ip_header",
    "ip_options",
    "ip_fragment",
    "checksum",
    "length",
    "no_service",
)
_HEADER = ("version", "kind", "flags", "dtype", "payload_length", "trailer", "control", "unhandled_kind")
REFUSED = ("unknown_job", "not_member", "rank_spoofed", "wrong_epoch", "rank_out_of_range", "fan_in_mismatch")
WINDOW = ("outside_window", "too_often")
TOLD = ("bad_count", "length_changed", "element_changed", "answered", "control_full", "not_for_us")
ANY = LAYERS + _HEADER + REFUSED + WINDOW + TOLD
# Of packets to a job whose packets are sealed: those without a seal, and those without the key of their rank.
UNSEALED = ("unsealed",)
UNPROVEN = ("unsealed", "forged")
JOINS = ("answered", "control_full", *REFUSED)
