#include "gateway/telemetry/trace_context.h"

#include <sys/random.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>

#include "conf/hex.h"

namespace gateway::telemetry {
namespace {

constexpr size_t kTraceparentBytes = 55;
constexpr size_t kMaxStateBytes = 512;  // what every implementation must pass on; more is dropped
constexpr size_t kMaxStateMembers = 32;
bool IsZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

bool IsKeyPart(std::string_view text, size_t max, bool digit_first) {
  if (text.empty() || text.size() > max) return false;
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!lower(text[0]) && !(digit_first && digit(text[0]))) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return lower(c) || digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
  });
}

// simple-key, or tenant-id "@" system-id.
bool IsStateKey(std::string_view key) {
  const size_t at = key.find('@');
  if (at == std::string_view::npos) return IsKeyPart(key, 256, false);
  return IsKeyPart(key.substr(0, at), 241, true) && IsKeyPart(key.substr(at + 1), 14, false);
}

bool IsStateValue(std::string_view value) {
  return !value.empty() && value.size() <= 256 && value.back() != ' ' &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e && c != ',' && c != '='; });
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool IsState(std::string_view state) {
  if (state.size() > kMaxStateBytes) return false;
  std::array<std::string_view, kMaxStateMembers> keys;
  size_t members = 0;
  while (true) {
    const size_t comma = state.find(',');
    const std::string_view member = Trim(state.substr(0, comma));
    if (!member.empty()) {  // empty members are allowed
      const size_t equals = member.find('=');
      if (equals == std::string_view::npos || members == kMaxStateMembers) return false;
      const std::string_view key = member.substr(0, equals);
      if (!IsStateKey(key) || !IsStateValue(member.substr(equals + 1))) return false;
      const auto end = keys.begin() + static_cast<ptrdiff_t>(members);
      if (std::find(keys.begin(), end, key) != end) return false;
      keys[members++] = key;
    }
    if (comma == std::string_view::npos) return true;
    state.remove_prefix(comma + 1);
  }
}

// A system call for every hundred traces or so.
void FillRandom(std::span<uint8_t> out) {
  struct Pool {
    std::array<uint8_t, 2048> bytes;
    size_t used = 2048;
  };
  thread_local Pool pool;
  if (pool.used + out.size() > pool.bytes.size()) {
    if (getrandom(pool.bytes.data(), pool.bytes.size(), 0) != static_cast<ssize_t>(pool.bytes.size()))
      std::abort();
    pool.used = 0;
  }
  std::memcpy(out.data(), pool.bytes.data() + pool.used, out.size());
  pool.used += out.size();
}

template <class Id>
Id NewId() {
  Id id;
  do {
    FillRandom(id);
  } while (IsZero(id));
  return id;
}

}  // namespace

std::optional<TraceContext> ParseTraceContext(std::string_view traceparent, std::string_view tracestate) {
  std::array<uint8_t, 1> version;
  std::array<uint8_t, 1> flags;
  TraceContext context;
  if (traceparent.size() < kTraceparentBytes || traceparent[2] != '-' || traceparent[35] != '-' ||
      traceparent[52] != '-' || !conf::ParseHex(traceparent.substr(0, 2), version) || version[0] == 0xff) {
    return std::nullopt;
  }
  if (traceparent.size() > kTraceparentBytes && (version[0] == 0 || traceparent[kTraceparentBytes] != '-')) {
    return std::nullopt;
  }
  if (!conf::ParseHex(traceparent.substr(3, 32), context.trace_id) ||
      !conf::ParseHex(traceparent.substr(36, 16), context.span_id) ||
      !conf::ParseHex(traceparent.substr(53, 2), flags) || IsZero(context.trace_id) ||
      IsZero(context.span_id)) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & 1) != 0;
  if (IsState(tracestate)) context.state = Trim(tracestate);
  return context;
}

std::string RenderTraceparent(const TraceContext& context) {
  std::string text = "00-";
  text.reserve(kTraceparentBytes);
  text += conf::Hex(context.trace_id);
  text += '-';
  text += conf::Hex(context.span_id);
  text += context.sampled ? "-01" : "-00";
  return text;
}

TraceId NewTraceId() {
  return NewId<TraceId>();
}
SpanId NewSpanId() {
  return NewId<SpanId>();
}

Sampler::Sampler(double ratio) {
  constexpr uint64_t kAll = uint64_t{1} << 63;
  below_ = !(ratio > 0) ? 0 : ratio >= 1 ? kAll : static_cast<uint64_t>(std::ldexp(ratio, 63));
}

bool Sampler::SampleRoot(const TraceId& trace_id) const {
  uint64_t low = 0;
  for (size_t i = 8; i < 16; ++i) low = low << 8 | trace_id[i];
  return low >> 1 < below_;
}

TraceContext StartTrace(const std::optional<TraceContext>& parent, const Sampler& sampler) {
  TraceContext context;
  if (parent) {
    context = *parent;
  } else {
    context.trace_id = NewTraceId();
  }
  context.sampled = sampler.Sample(parent, context.trace_id);
  context.span_id = NewSpanId();
  return context;
}

}  // namespace gateway::telemetry
