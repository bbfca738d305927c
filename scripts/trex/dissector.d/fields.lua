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
