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
