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
