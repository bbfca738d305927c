-- Pascaline's packets for Wireshark and tshark (tried with 4.0): docs/protocol.md names every field.
--
--   tshark -X lua_script:pascaline.lua -r job1.pcap -V
--   cp pascaline.lua ~/.local/lib/wireshark/plugins/        to have it always
--
-- Made by scripts/wireshark from scripts/trex/pascaline_layers.py and scripts/trex/dissector.d.
-- Change those, not this file.
--
-- Filters: pascaline.kind == 1, pascaline.job == 7, pascaline.flags.retransmission, pascaline.malformed.

local PORTS = "16420-16421"
local SWITCHML_PORT = "48864"

local KINDS = {
    [1] = "gradient", [2] = "result", [3] = "partial", [4] = "update", [5] = "ack",
    [6] = "reminder", [7] = "fetch", [8] = "control",
}
local DTYPES = {
    [1] = "f32", [2] = "i32", [3] = "f16", [4] = "bf16", [5] = "f64", [6] = "mxfp8", [7] = "mxint8",
    [8] = "u32",
}
local DTYPES_OR_NONE = {
    [0] = "none", [1] = "f32", [2] = "i32", [3] = "f16", [4] = "bf16", [5] = "f64", [6] = "mxfp8",
    [7] = "mxint8", [8] = "u32",
}
local OPS = {
    [0] = "sum", [1] = "min", [2] = "max", [3] = "mean",
}
local ACTIONS = {
    [0] = "none", [1] = "join", [2] = "leave", [3] = "reset", [4] = "set_h", [5] = "f_bcast",
    [6] = "help", [7] = "halt", [8] = "ack", [9] = "serve", [10] = "query",
}
local STATUSES = {
    [0] = "ok", [1] = "pending", [2] = "unknown_job", [3] = "rank_out_of_range",
    [4] = "fan_in_mismatch", [5] = "source_refused", [6] = "stale_session", [7] = "wrong_epoch",
    [8] = "not_member", [9] = "payload_mismatch", [10] = "element_mismatch", [11] = "unsupported",
    [12] = "rank_spoofed", [13] = "rank_lost", [14] = "quota", [15] = "halted",
    [16] = "unknown_psn", [17] = "too_many", [18] = "operation_mismatch", [19] = "rank_left",
    [20] = "rank_taken", [21] = "not_permitted", [22] = "jobs_of_host", [23] = "objective",
    [24] = "no_server", [25] = "not_finite", [26] = "from_the_future", [27] = "bad_count",
    [28] = "low_reward", [29] = "diverges", [30] = "no_update", [31] = "no_model",
    [32] = "ranks_of_host", [33] = "overtaken", [34] = "unproven",
}
local COLLECTIVES = {
    [0] = "allreduce", [1] = "reduce", [2] = "broadcast", [3] = "barrier", [4] = "reduce_scatter",
    [5] = "allgather",
}
local RANK_STATES = {
    [1] = "never_joined", [2] = "left", [3] = "lost", [4] = "silent", [5] = "behind", [6] = "here",
    [7] = "blocked", [8] = "overtaken",
}
local TRAILER_TYPES = {
    [1] = "bitmap", [2] = "update", [3] = "queue", [5] = "operations", [6] = "ranks",
    [7] = "sentence", [8] = "seal",
}
local HEARINGS = {
    [0] = "deaf", [1] = "listens", [2] = "hears",
}
local CONGESTION = {
    [0] = "none", [1] = "fixed", [2] = "panama", [3] = "dsa", [4] = "delay",
}
local SIZES = {
    [1] = "64 integers", [3] = "256 integers",
}
local SETS = {
    [0] = "first", [1] = "second",
}
local FLAGS = {
    [0] = "ecn_echo", [1] = "fin", [2] = "retransmission", [3] = "bypass", [4] = "overflow",
    [5] = "trailer", [6] = "reserved6", [7] = "reserved7",
}
local DTYPE_BYTES = {
    [1] = 4, [2] = 4, [3] = 2, [4] = 2, [5] = 8, [6] = 33, [7] = 33, [8] = 4,
}
local INTEGERS = {
    [1] = 64, [3] = 256,
}
local REASONS = {
    vlan_depth = "more than two VLAN tags",
    length = "the UDP length is not what the IP packet holds",
    ip_header = "an IPv4-mapped address in an IPv6 packet",
    ip_options = "IPv4 options, or IPv6 extension headers",
    ip_fragment = "a fragment",
    ip_checksum = "the IPv4 header checksum is wrong",
    truncated = "shorter than the header, or than a control body",
    version = "not version 3",
    kind = "a kind that version 3 does not have",
    flags = "a reserved flag is set",
    dtype = "an element that version 3 does not have",
    trailer = "lengths that do not add up, or an element that is unknown, out of order or not legal",
    payload_length = "not a whole number of elements, or none or some where the kind has others",
    control = "a control body that version 3 does not have",
}

-- The header of 22 bytes; what is behind it depends on kind and flags (protocol, sections 4 to 8).
local HEADER = {
    { name = "version", at = 0, size = 1, type = "uint8" },
    { name = "kind", at = 1, size = 1, type = "uint8", names = KINDS },
    { name = "flags", at = 2, size = 1, type = "uint8", flags = FLAGS },
    { name = "op", at = 3, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0, names = OPS },
    { name = "dtype", at = 3, size = 1, type = "uint8", bit = 4, bits = 4, mask = 0xf, names = DTYPES },
    { name = "job", at = 4, size = 2, type = "uint16" },
    { name = "rank", at = 6, size = 2, type = "uint16" },
    { name = "psn", at = 8, size = 4, type = "uint32" },
    { name = "fan_in", at = 12, size = 2, type = "uint16" },
    { name = "count", at = 14, size = 2, type = "uint16" },
    { name = "priority", at = 16, size = 2, type = "uint16", of = { sum = true } },
    { name = "round", at = 16, size = 2, type = "uint16", of = { vote = true } },
    { name = "origin", at = 16, size = 2, type = "uint16", of = { update = true } },
    { name = "status", at = 16, size = 2, type = "uint16", names = STATUSES, of = { answer = true } },
    { name = "wnd_cap", at = 18, size = 2, type = "uint16", of = { sum = true, vote = true } },
    { name = "pause", at = 18, size = 2, type = "uint16", of = { answer = true } },
    { name = "epoch", at = 20, size = 2, type = "uint16" },
}

-- The 72 bytes behind the header of a control packet (protocol, section 9).
local CONTROL = {
    { name = "action", at = 0, size = 1, type = "uint8", names = ACTIONS },
    { name = "status", at = 1, size = 1, type = "uint8", names = STATUSES },
    { name = "answers", at = 2, size = 1, type = "uint8", names = ACTIONS },
    { name = "op", at = 3, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0, names = OPS },
    { name = "dtype", at = 3, size = 1, type = "uint8", bit = 4, bits = 4, mask = 0xf, names = DTYPES_OR_NONE },
    { name = "number", at = 4, size = 4, type = "uint32" },
    { name = "session", at = 8, size = 8, type = "uint64" },
    { name = "cookie", at = 16, size = 8, type = "uint64" },
    { name = "payload", at = 24, size = 2, type = "uint16" },
    { name = "window", at = 26, size = 2, type = "uint16" },
    { name = "joined", at = 28, size = 2, type = "uint16" },
    { name = "hearing", at = 30, size = 1, type = "uint8", names = HEARINGS },
    { name = "congestion", at = 31, size = 1, type = "uint8", names = CONGESTION },
    { name = "expected", at = 32, size = 4, type = "uint32" },
    { name = "got", at = 36, size = 4, type = "uint32" },
    { name = "before", at = 40, size = 4, type = "uint32" },
    { name = "psn", at = 44, size = 4, type = "uint32" },
    { name = "first", at = 48, size = 4, type = "uint32" },
    { name = "workers", at = 52, size = 4, type = "uint32" },
    { name = "call", at = 56, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0, names = COLLECTIVES },
    { name = "argument", at = 56, size = 2, type = "uint16", bit = 4, bits = 12, mask = 0xfff },
    { name = "bytes", at = 58, size = 6, type = "uint64" },
    { name = "group", at = 64, size = 8, type = "uint64" },
}

-- The ten bytes before the integers, which are big endian.
local SWITCHML = {
    { name = "kind", at = 0, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0 },
    { name = "size", at = 0, size = 1, type = "uint8", bit = 5, bits = 3, mask = 0x7, names = SIZES },
    { name = "operation", at = 1, size = 1, type = "uint8" },
    { name = "packet", at = 2, size = 4, type = "uint32" },
    { name = "set", at = 6, size = 1, type = "uint8", bit = 0, bits = 1, mask = 0x80, names = SETS },
    { name = "slot", at = 6, size = 2, type = "uint16", bit = 1, bits = 15, mask = 0x7fff },
    { name = "exponent", at = 8, size = 1, type = "int8" },
    { name = "exponent_2", at = 9, size = 1, type = "int8" },
}

local ELEMENTS = {
    -- The ranks inside: one number, most significant byte first, rank r is bit r.
    [1] = {
        name = "bitmap",
        least = 8, most = 128, step = 8,
        fields = {
        },
        rest = "bits",
    },
    -- Reward and time of generation of an asynchronous update (Olaf, sections 2 and 7).
    [2] = {
        name = "update",
        least = 12, most = 12, step = 1,
        fields = {
            { name = "reward", at = 0, size = 4, type = "float" },
            { name = "generated_ns", at = 4, size = 8, type = "uint64" },
        },
    },
    -- State of the bottleneck queue (Olaf, sections 5 and 7).
    [3] = {
        name = "queue",
        least = 7, most = 7, step = 1,
        fields = {
            { name = "clusters", at = 0, size = 2, type = "uint16" },
            { name = "capacity", at = 2, size = 2, type = "uint16" },
            { name = "waiting", at = 4, size = 3, type = "uint24" },
        },
    },
    -- Two operations that ranks call at the same PSN: what most call, and what another calls.
    [5] = {
        name = "operations",
        least = 32, most = 32, step = 1,
        part = 16,
        fields = {
            { name = "rank", at = 0, size = 2, type = "uint16" },
            { name = "op", at = 2, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0, names = OPS },
            { name = "dtype", at = 2, size = 1, type = "uint8", bit = 4, bits = 4, mask = 0xf, names = DTYPES_OR_NONE },
            { name = "reserved", at = 3, size = 1, type = "uint8" },
            { name = "first", at = 4, size = 4, type = "uint32" },
            { name = "call", at = 8, size = 1, type = "uint8", bit = 0, bits = 4, mask = 0xf0, names = COLLECTIVES },
            { name = "argument", at = 8, size = 2, type = "uint16", bit = 4, bits = 12, mask = 0xfff },
            { name = "bytes", at = 10, size = 6, type = "uint64" },
        },
    },
    -- Details of missing ranks: 32 bytes for each.
    [6] = {
        name = "ranks",
        least = 32, most = 224, step = 32,
        part = 32,
        fields = {
            { name = "rank", at = 0, size = 2, type = "uint16" },
            { name = "state", at = 2, size = 1, type = "uint8", names = RANK_STATES },
            { name = "reserved", at = 3, size = 1, type = "uint8" },
            { name = "silent_ms", at = 4, size = 4, type = "uint32" },
            { name = "behind", at = 8, size = 4, type = "uint32" },
            { name = "port", at = 12, size = 2, type = "uint16" },
            { name = "reserved_2", at = 14, size = 2, type = "uint16" },
            { name = "address", at = 16, size = 16, type = "ipv6" },
        },
    },
    -- A reason in words: text in UTF-8.
    [7] = {
        name = "sentence",
        least = 1, most = 224, step = 1,
        fields = {
        },
        rest = "text",
    },
    -- Room for a proof of the sender: a counter and a tag.
    [8] = {
        name = "seal",
        least = 24, most = 24, step = 1,
        fields = {
            { name = "counter", at = 0, size = 8, type = "uint64" },
            { name = "tag", at = 8, size = 16, type = "bytes" },
        },
    },
}

local KIND = {}
for code, name in pairs(KINDS) do KIND[name] = code end
local ACTION = {}
for code, name in pairs(ACTIONS) do ACTION[name] = code end
local VERSION = 3
local HEADER_BYTES = 22
local BODY_BYTES = 72
-- Elements that are shown one by one, as far as the preference goes; little endian.
local SHOWN = { f32 = "float", i32 = "int32", u32 = "uint32", f64 = "double" }

---- fields ----

local pascaline = Proto("pascaline", "Pascaline aggregation protocol, version 3")
local switchml = Proto("switchml", "SwitchML's packets")

-- Gives each row of a layout its field.
local function declare(proto, prefix, layout)
    for _, row in ipairs(layout) do
        local abbreviation = prefix .. row.name
        if row.type == "float" or row.type == "ipv6" or row.type == "bytes" then
            row.field = ProtoField[row.type](abbreviation, row.name)
        elseif row.flags then
            row.field = ProtoField.uint8(abbreviation, row.name, base.HEX)
            row.each = {}
            for bit = 0, 7 do
                local name = row.flags[bit]
                row.each[bit] = ProtoField.bool(abbreviation .. "." .. name, name, 8, nil, 2 ^ bit)
                table.insert(proto.fields, row.each[bit])
            end
        else
            row.field = ProtoField[row.type](abbreviation, row.name, base.DEC, row.names, row.mask)
        end
        table.insert(proto.fields, row.field)
    end
end

local own = {
    payload = ProtoField.bytes("pascaline.payload", "payload"),
    elements = ProtoField.uint32("pascaline.elements", "elements"),
    padding = ProtoField.bytes("pascaline.padding", "zeros behind the body"),
    trailer = ProtoField.bytes("pascaline.trailer", "trailer"),
    trailer_length = ProtoField.uint16("pascaline.trailer.length", "trailer length"),
    type = ProtoField.uint8("pascaline.trailer.type", "type", base.DEC, TRAILER_TYPES),
    length = ProtoField.uint8("pascaline.trailer.element_length", "length"),
    bits = ProtoField.bytes("pascaline.bitmap.bits", "bits"),
    ranks = ProtoField.string("pascaline.bitmap.ranks", "ranks"),
    capacity = ProtoField.uint16("pascaline.bitmap.capacity", "capacity"),
    text = ProtoField.string("pascaline.sentence.text", "text", base.UNICODE),
    malformed = ProtoField.string("pascaline.malformed", "malformed"),
}
for name, kind in pairs(SHOWN) do
    own[name] = ProtoField[kind]("pascaline." .. name, name)
end
for _, field in pairs(own) do table.insert(pascaline.fields, field) end

declare(pascaline, "pascaline.", HEADER)
declare(pascaline, "pascaline.control.", CONTROL)
for _, element in pairs(ELEMENTS) do
    declare(pascaline, "pascaline." .. element.name .. ".", element.fields)
end
declare(switchml, "switchml.", SWITCHML)
local integer = ProtoField.int32("switchml.integer", "integer")
local not_switchml = ProtoExpert.new(
    "switchml.malformed.expert", "not as SwitchML's clients send it",
    expert.group.MALFORMED, expert.severity.ERROR)
table.insert(switchml.fields, integer)
switchml.experts = { not_switchml }

local experts = {}
for reason, why in pairs(REASONS) do
    experts[reason] = ProtoExpert.new(
        "pascaline.malformed." .. reason, "malformed: " .. reason .. ": " .. why,
        expert.group.MALFORMED, expert.severity.ERROR)
end
local cut_short = ProtoExpert.new(
    "pascaline.cut", "the capture has not the whole packet: what is missing is not judged",
    expert.group.UNDECODED, expert.severity.NOTE)
local congested = ProtoExpert.new(
    "pascaline.congested", "congestion was experienced on the way",
    expert.group.SEQUENCE, expert.severity.NOTE)
local again = ProtoExpert.new(
    "pascaline.again", "the sender has sent this PSN before",
    expert.group.SEQUENCE, expert.severity.NOTE)
local refused = ProtoExpert.new(
    "pascaline.refused", "refused", expert.group.RESPONSE_CODE, expert.severity.NOTE)
local all = { cut_short, congested, again, refused }
for _, one in pairs(experts) do table.insert(all, one) end
pascaline.experts = all

---- what the layers below have read ----

local below = {}
for _, name in ipairs({
    "ip.len", "ip.hdr_len", "ip.flags.mf", "ip.frag_offset", "ip.checksum.status", "ipv6.plen", "ipv6.nxt",
    "ipv6.src", "ipv6.dst", "udp.length", "vlan.id", "ieee8021ad.id",
}) do
    below[name] = Field.new(name)
end

-- The value nearest to the payload: packets may travel in others.
local function last(name)
    local found = { below[name]() }
    return #found > 0 and found[#found].value or nil, #found
end

-- Checks of section 12 above UDP, from the outside in; Wireshark itself tells the others.
local function judge_below()
    local _, inner = last("vlan.id")
    local _, outer = last("ieee8021ad.id")
    if inner + outer > 2 then return "vlan_depth" end
    local datagram = last("udp.length")
    local total = last("ip.len")
    if total then
        local header = last("ip.hdr_len")
        local fragment = last("ip.frag_offset") > 0 or last("ip.flags.mf") == true
        if header > 20 then return "ip_options" end
        if fragment then return "ip_fragment" end
        if last("ip.checksum.status") == 0 then return "ip_checksum" end
        -- 0 is what a kernel writes that leaves cutting to the card.
        if total > 0 and total - header ~= datagram then return "length" end
        return nil
    end
    local payload = last("ipv6.plen")
    if payload then
        for _, name in ipairs({ "ipv6.src", "ipv6.dst" }) do
            if tostring(last(name)):lower():find("^::ffff:") then return "ip_header" end
        end
        if last("ipv6.nxt") ~= 17 then return "ip_options" end
        if payload > 0 and payload ~= datagram then return "length" end
    end
    return nil
end

---- what is legal ----

local function is_element(code)
    local dtype, op = code % 16, math.floor(code / 16)
    local type, operation = DTYPES[dtype] or "", OPS[op]
    -- Blocks are only added, and integers that wrap have no mean.
    local lacks = type:find("^mx") and { min = true, max = true } or type == "u32" and { mean = true } or {}
    return DTYPES[dtype] ~= nil and operation ~= nil and not lacks[operation]
end

local function value_of(row, range)
    local bytes = range:range(row.at, row.size)
    return row.mask and bytes:bitfield(row.bit, row.bits) or bytes:uint()
end

-- Every value that has names has one, and what is reserved is 0.
local function is_legal(layout, range)
    for _, row in ipairs(layout) do
        if row.names and row.names[value_of(row, range)] == nil then return false end
        if row.name:find("^reserved") and value_of(row, range) ~= 0 then return false end
        -- Type and operation are one byte: 0 is no element.
        if row.names == DTYPES_OR_NONE then
            local code = range:range(row.at, 1):uint()
            if code ~= 0 and not is_element(code) then return false end
        end
    end
    return true
end

-- UTF-8 (RFC 3629) without control characters, one character each.
local CHARACTERS = {
    "^[\x20-\x7e]", "^\xc2[\xa0-\xbf]", "^[\xc3-\xdf][\x80-\xbf]", "^\xe0[\xa0-\xbf][\x80-\xbf]",
    "^[\xe1-\xec\xee\xef][\x80-\xbf][\x80-\xbf]", "^\xed[\x80-\x9f][\x80-\xbf]",
    "^\xf0[\x90-\xbf][\x80-\xbf][\x80-\xbf]", "^[\xf1-\xf3][\x80-\xbf][\x80-\xbf][\x80-\xbf]",
    "^\xf4[\x80-\x8f][\x80-\xbf][\x80-\xbf]",
}

local function is_text(text)
    local at = 1
    while at <= #text do
        local stop
        for _, pattern in ipairs(CHARACTERS) do
            local _, found = text:sub(at, at + 3):find(pattern)
            stop = stop or found
        end
        if not stop then return false end
        at = at + stop
    end
    return true
end

local function is_value(element, range)
    local size = range:len()
    if size < element.least or size > element.most or (size - element.least) % element.step ~= 0 then
        return false
    end
    if element.rest == "text" then return is_text(range:raw()) end
    if not element.part then return true end
    for at = 0, size - 1, element.part do
        if not is_legal(element.fields, range:range(at, element.part)) then return false end
    end
    return true
end

-- The elements of a trailer, as {type, at, size}; nil if it is malformed.
local function elements_of(range)
    local found, at, before, stop = {}, 0, 0, range:len() - 2
    while at < stop do
        if stop - at < 2 then return nil end
        local type, size = range:range(at, 1):uint(), range:range(at + 1, 1):uint()
        local element = ELEMENTS[type]
        if type <= before or not element or at + 2 + size > stop then return nil end
        -- No element is empty; a range of no bytes is an error.
        if size == 0 or not is_value(element, range:range(at + 2, size)) then return nil end
        table.insert(found, { type = type, at = at, size = size })
        at, before = at + 2 + size, type
    end
    return found
end

-- Eight bytes that name a multicast group, or none.
local function is_group(code)
    local first, second = code:range(0, 2):uint(), code:range(2, 2):uint()
    local third = code:range(4, 4):uint()
    if first ~= 0 then return false end
    if second == 0 then return third == 0 or math.floor(third / 2 ^ 28) == 0xe end
    return math.floor(second / 256) == 0xff
end

local function judge_control(body)
    if body:len() < BODY_BYTES then return "truncated" end
    local action, status = body:range(0, 1):uint(), body:range(1, 1):uint()
    local answers = body:range(2, 1):uint()
    if not is_legal(CONTROL, body) or not is_group(body:range(64, 8)) or action == 0 or answers == ACTION.ack then return "control" end
    if action ~= ACTION.ack and (status ~= 0 or answers ~= 0) then return "control" end
    local behind = body:len() - BODY_BYTES
    if behind > 0 then
        local zeros = not body:range(BODY_BYTES, behind):raw():find("[^\0]")
        if not zeros or (action ~= ACTION.join and answers ~= ACTION.join) then return "control" end
    end
    return nil
end

local function judge_payload(kind, dtype, range, length)
    if kind == KIND.control then
        if length == 0 then return "truncated" end
        return judge_control(range)
    end
    local empty = kind == KIND.reminder or kind == KIND.fetch
    local least = (empty or kind == KIND.ack) and 0 or DTYPE_BYTES[dtype]
    if length < least or (empty and length > 0) or length % DTYPE_BYTES[dtype] ~= 0 then
        return "payload_length"
    end
    return nil
end

-- What is wrong with a datagram, if anything is, and where its parts are: {payload, trailer} in bytes.
local function judge(tvb)
    local length = tvb:reported_len()
    if length < HEADER_BYTES then return "truncated", nil end
    local code = tvb:range(3, 1):uint()
    local kind, flags = tvb:range(1, 1):uint(), tvb:range(2, 1):uint()
    local parts = { payload = length - HEADER_BYTES, trailer = 0 }
    if tvb:range(0, 1):uint() ~= VERSION then return "version", parts end
    if not KINDS[kind] then return "kind", parts end
    if flags >= 64 then return "flags", parts end
    if not is_element(code) then return "dtype", parts end
    if math.floor(flags / 32) % 2 == 1 then
        if parts.payload < 2 then return "trailer", parts end
        local trailer = tvb:range(length - 2, 2):uint()
        if trailer < 2 or trailer > parts.payload then return "trailer", parts end
        parts = { payload = parts.payload - trailer, trailer = trailer }
        parts.elements = elements_of(tvb:range(length - trailer, trailer))
        if not parts.elements then return "trailer", parts end
    end
    local payload = parts.payload > 0 and tvb:range(HEADER_BYTES, parts.payload) or nil
    return judge_payload(kind, code % 16, payload, parts.payload), parts
end

---- showing ----

-- Without fields of other uses than this.
local function show(tree, range, layout, use)
    for _, row in ipairs(layout) do
        if row.of and not row.of[use] then goto continue end
        local bytes = range:range(row.at, row.size)
        local item
        if row.type == "uint64" and row.size ~= 8 then
            item = tree:add(row.field, bytes, bytes:uint64())
        else
            item = tree:add(row.field, bytes)
        end
        for bit = 0, row.each and 7 or -1 do item:add(row.each[bit], bytes) end
        ::continue::
    end
end

local function show_bitmap(tree, range)
    local ranks, size = {}, range:len()
    for rank = 0, 8 * size - 1 do
        local byte = range:range(size - 1 - math.floor(rank / 8), 1):uint()
        if math.floor(byte / 2 ^ (rank % 8)) % 2 == 1 then table.insert(ranks, string.format("%d", rank)) end
    end
    tree:add(own.bits, range)
    tree:add(own.ranks, range, table.concat(ranks, ",")):set_generated()
    tree:add(own.capacity, range, 8 * size):set_generated()
end

local function show_element(tree, range, found)
    local element = ELEMENTS[found.type]
    local value = range:range(found.at + 2, found.size)
    local item = tree:add(range:range(found.at, found.size + 2), element.name)
    item:add(own.type, range:range(found.at, 1))
    item:add(own.length, range:range(found.at + 1, 1))
    if element.rest == "bits" then
        show_bitmap(item, value)
    elseif element.rest then
        item:add_packet_field(own[element.rest], value, ENC_UTF_8 + ENC_NA)
    elseif element.part then
        for at = 0, found.size - 1, element.part do
            local part = value:range(at, element.part)
            show(item:add(part, "rank " .. part:range(0, 2):uint()), part, element.fields)
        end
    else
        show(item, value, element.fields)
    end
end

local function show_trailer(tree, range, elements)
    local item = tree:add(own.trailer, range)
    if not elements then return end
    for _, found in ipairs(elements) do show_element(item, range, found) end
    item:add(own.trailer_length, range:range(range:len() - 2, 2))
end

local function show_payload(tree, range, dtype)
    local item = tree:add(own.payload, range)
    local size = DTYPE_BYTES[dtype]
    if not size or range:len() % size ~= 0 then return end
    local count = math.floor(range:len() / size)
    item:add(own.elements, range, count):set_generated()
    local name = DTYPES[dtype]
    if not SHOWN[name] then return end
    for at = 0, math.min(count, pascaline.prefs.elements) - 1 do
        item:add_le(own[name], range:range(at * size, size))
    end
end

-- "join", "ack ok to join", "gradient".
local function title_of(tvb, kind)
    if kind ~= KIND.control or tvb:len() < HEADER_BYTES + 3 then return KINDS[kind] or "kind " .. kind end
    local action = tvb:range(HEADER_BYTES, 1):uint()
    local title = ACTIONS[action] or "action " .. action
    if action ~= ACTION.ack then return title end
    local status, answers = tvb:range(HEADER_BYTES + 1, 1):uint(), tvb:range(HEADER_BYTES + 2, 1):uint()
    return string.format("%s %s to %s", title, STATUSES[status] or status, ACTIONS[answers] or answers)
end

local function summary_of(tvb, reason)
    local set, flags = {}, tvb:range(2, 1):uint()
    for bit = 0, 7 do
        if math.floor(flags / 2 ^ bit) % 2 == 1 then table.insert(set, FLAGS[bit]) end
    end
    return string.format(
        "%s job=%d rank=%d psn=%d epoch=%d count=%d/%d%s%s",
        title_of(tvb, tvb:range(1, 1):uint()), tvb:range(4, 2):uint(), tvb:range(6, 2):uint(),
        tvb:range(8, 4):uint(), tvb:range(20, 2):uint(), tvb:range(14, 2):uint(), tvb:range(12, 2):uint(),
        #set > 0 and " [" .. table.concat(set, ",") .. "]" or "",
        reason and " malformed: " .. reason or "")
end

local function note(item, tvb)
    local flags = tvb:range(2, 1):uint()
    if flags % 2 == 1 then item:add_proto_expert_info(congested) end
    if math.floor(flags / 4) % 2 == 1 then item:add_proto_expert_info(again) end
    if tvb:range(1, 1):uint() ~= KIND.control or tvb:len() < HEADER_BYTES + 2 then return end
    local status = tvb:range(HEADER_BYTES + 1, 1):uint()
    if status > 1 then item:add_proto_expert_info(refused, "refused: " .. (STATUSES[status] or status)) end
end

-- What a packet has its own two fields for (protocol, section 4).
local function use_of(kind, flags)
    local bypass = math.floor(flags / 8) % 2 == 1
    if kind == KIND.result or kind == KIND.reminder or kind == KIND.fetch then return "vote" end
    if kind == KIND.gradient and bypass then return "vote" end
    if kind == KIND.update then return "update" end
    if kind == KIND.ack then return "answer" end
    return kind == KIND.control and "none" or "sum"
end

local function show_all(tvb, item, parts)
    local use = use_of(tvb:range(1, 1):uint(), tvb:range(2, 1):uint())
    show(item, tvb:range(0, HEADER_BYTES), HEADER, use)
    if parts.payload > 0 then
        local payload = tvb:range(HEADER_BYTES, parts.payload)
        if tvb:range(1, 1):uint() ~= KIND.control or parts.payload < BODY_BYTES then
            show_payload(item, payload, tvb:range(3, 1):uint() % 16)
        else
            show(item:add(payload:range(0, BODY_BYTES), "control"), payload, CONTROL)
            local behind = parts.payload - BODY_BYTES
            if behind > 0 then item:add(own.padding, payload:range(BODY_BYTES, behind)) end
        end
    end
    if parts.trailer > 0 then
        show_trailer(item, tvb:range(tvb:len() - parts.trailer, parts.trailer), parts.elements)
    end
end

function pascaline.dissector(tvb, pinfo, tree)
    pinfo.cols.protocol = "Pascaline"
    local item = tree:add(pascaline, tvb())
    local has = tvb:len()
    local reason, parts
    if has == tvb:reported_len() then
        reason, parts = judge(tvb)
        reason = judge_below() or reason
    else
        item:add_proto_expert_info(cut_short)
        parts = { payload = math.max(has - HEADER_BYTES, 0), trailer = 0 }
    end
    if has < HEADER_BYTES then
        pinfo.cols.info = reason and "malformed: " .. reason or "cut short"
    else
        show_all(tvb, item, parts)
        note(item, tvb)
        local summary = summary_of(tvb, reason)
        pinfo.cols.info = summary
        item:append_text(": " .. summary)
    end
    if reason then
        item:add(own.malformed, reason):set_generated()
        item:add_proto_expert_info(experts[reason])
    end
    return has
end

function switchml.dissector(tvb, pinfo, tree)
    local head = 10
    local whole = tvb:len() == tvb:reported_len()
    local integers = tvb:len() >= head and INTEGERS[tvb:range(0, 1):uint() % 8]
    local legal = integers and math.floor(tvb:range(0, 1):uint() / 16) == 1
        and tvb:reported_len() == head + 4 * integers and tvb:range(6, 2):uint() % 32768 < 16384
    pinfo.cols.protocol = "SwitchML"
    local item = tree:add(switchml, tvb())
    if tvb:len() < head then
        if whole then item:add_proto_expert_info(not_switchml) end
        return tvb:len()
    end
    show(item, tvb:range(0, head), SWITCHML)
    if not legal then item:add_proto_expert_info(not_switchml) end
    local place = tvb:range(6, 2):uint()
    pinfo.cols.info = string.format(
        "operation=%d packet=%d slot=%d %s set", tvb:range(1, 1):uint(), tvb:range(2, 4):uint(),
        place % 32768, SETS[math.floor(place / 32768)])
    local shown = math.min(math.floor((tvb:len() - head) / 4), pascaline.prefs.elements)
    for at = 0, shown - 1 do item:add(integer, tvb:range(head + 4 * at, 4)) end
    return tvb:len()
end

---- which packets ----

pascaline.prefs.ports = Pref.range("UDP ports", PORTS, "Of the appliance and of parameter servers", 65535)
pascaline.prefs.elements = Pref.uint("Elements shown", 16, "How many values of a payload are shown one by one")
switchml.prefs.ports = Pref.range("UDP ports", SWITCHML_PORT, "Of jobs with protocol = \"switchml\"", 65535)

local udp = DissectorTable.get("udp.port")

-- Follows the preference: from the ports that it had to those that it has.
local function follow(proto, first)
    local had = first
    udp:add(had, proto)
    return function()
        if proto.prefs.ports == had then return end
        if had ~= "" then udp:remove(had, proto) end
        had = proto.prefs.ports
        if had ~= "" then udp:add(had, proto) end
    end
end

pascaline.prefs_changed = follow(pascaline, PORTS)
switchml.prefs_changed = follow(switchml, SWITCHML_PORT)

-- On other ports: what is well-formed in every respect.
pascaline:register_heuristic("udp", function(tvb, pinfo, tree)
    if tvb:len() ~= tvb:reported_len() or judge(tvb) ~= nil then return false end
    pascaline.dissector(tvb, pinfo, tree)
    return true
end)
