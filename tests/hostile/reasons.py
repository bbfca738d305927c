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
# What is not sealed with the key of its rank, in a job whose packets are. A rank that has left, or joins, is
# no member for a moment.
UNSEALED = ("unsealed",)
UNPROVEN = ("unsealed", "forged")
JOINS = ("answered", "control_full", *REFUSED)
