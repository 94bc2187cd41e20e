// GrantShare() of share.h as a script for Redis: the same arithmetic, so the same answers.
//
//   EVAL kGrantScript 1 KEY gateway seq first capacity held want ttl_ms linger_ms recovery_ms now_ms
//     KEY       ShareHolder::StoreKey with the deployment's prefix
//     first     1 or 0
//     now_ms    Unix milliseconds; 0: the server's own clock, which gateways should use
//   → {accepted, share, target, held, gateways, recovering}: six integers, as in ShareGrant
//
// KEY is a hash: `opened`, `last`, and `g:NAME` → "seq held want alive_until kept_until" for each gateway. It
// expires with its last lease.
#pragma once

#include <string_view>

namespace router::limits {

inline constexpr std::string_view kGrantScript = R"lua(
local gateway = ARGV[1]
local seq, first, capacity = tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4])
local held, want = tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, linger, recovery = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local now = tonumber(ARGV[10])
if now == 0 then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local opened, last
local leases = {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  if fields[i] == 'opened' then
    opened = tonumber(fields[i + 1])
  elseif fields[i] == 'last' then
    last = tonumber(fields[i + 1])
  else
    local s, h, w, a, k = string.match(fields[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    if tonumber(k) <= now then
      redis.call('HDEL', KEYS[1], fields[i])
    else
      leases[string.sub(fields[i], 3)] =
        {seq = tonumber(s), held = tonumber(h), want = tonumber(w), alive = tonumber(a), kept = tonumber(k)}
    end
  end
end
if not opened or now > last + ttl then opened = now end
redis.call('HSET', KEYS[1], 'opened', string.format('%.0f', opened), 'last', string.format('%.0f', now))

local old = leases[gateway]
if old then
  if seq <= old.seq then return {0, 0, 0, 0, 0, 0} end
  if first then held = math.max(held, old.held) end
end
want = math.min(math.max(want, 0), capacity)
local lease = {seq = seq, held = held, want = want, alive = now + math.max(ttl, 1)}
lease.kept = lease.alive + linger
leases[gateway] = lease

local sum, until_ = 0, 0
local shared = capacity
local missing = false
local members = {}
for name, l in pairs(leases) do
  sum = sum + l.held
  until_ = math.max(until_, l.kept)
  if now < l.alive then
    members[#members + 1] = {name = name, want = l.want}
  else
    shared = shared - l.held
    missing = missing or l.held > 0
  end
end
local count = #members
local room = capacity - sum
local recovering = now < opened + recovery

local target = held
if not recovering then
  shared = math.max(shared, 0)
  local least = math.floor(shared / (4 * count))
  for _, m in ipairs(members) do m.want = math.max(m.want, least) end
  table.sort(members, function(a, b)
    if a.want ~= b.want then return a.want < b.want end
    return a.name < b.name
  end)
  local left, waiting, before = shared, count, 0
  target = 0
  for _, m in ipairs(members) do
    local part = math.min(m.want, math.floor(left / waiting))
    if m.name == gateway then target = part end
    if m.name < gateway then before = before + 1 end
    left = left - part
    waiting = waiting - 1
  end
  if missing then
    target = target + math.floor(left / (count + 1))
  else
    target = target + math.floor(left / count)
    if before < left % count then target = target + 1 end
  end
end

local share
if room < 0 then
  share = math.max(held + room, 0)
else
  lease.held = held + math.min(math.max(target - held, 0), room)
  share = lease.held
end
redis.call('HSET', KEYS[1], 'g:' .. gateway, string.format('%.0f %.0f %.0f %.0f %.0f',
  lease.seq, lease.held, lease.want, lease.alive, lease.kept))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', until_))
return {1, share, target, sum - held + lease.held, count, recovering and 1 or 0}
)lua";

}  // namespace router::limits
