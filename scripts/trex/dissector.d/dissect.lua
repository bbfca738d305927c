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
