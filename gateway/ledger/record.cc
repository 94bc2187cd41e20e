#include "gateway/ledger/record.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include "conf/words.h"

namespace gateway::ledger {
namespace {

static_assert(sizeof(OpenHead) == 24 && sizeof(CloseHead) == 136 && sizeof(ContentHead) == 32);

constexpr conf::Word<Kind> kKindWords[] = {
    {"open", Kind::kOpen},           {"close", Kind::kClose},       {"content", Kind::kContent},
    {"config", Kind::kConfig},       {"key", Kind::kKey},           {"admin", Kind::kAdmin},
    {"action", Kind::kAction},       {"devices", Kind::kDevices},   {"start", Kind::kStart},
    {"stop", Kind::kStop},           {"segment", Kind::kSegment},   {"checkpoint", Kind::kCheckpoint},
    {"retention", Kind::kRetention}, {"recovery", Kind::kRecovery}, {"refusals", Kind::kRefusals},
    {"feedback", Kind::kFeedback}};
constexpr conf::Word<EndReason> kReasonWords[] = {{"done", EndReason::kDone},
                                                  {"length", EndReason::kLength},
                                                  {"client_gone", EndReason::kClientGone},
                                                  {"upstream_failed", EndReason::kUpstreamFailed},
                                                  {"timed_out", EndReason::kTimedOut},
                                                  {"bad_request", EndReason::kBadRequest},
                                                  {"refused", EndReason::kRefused},
                                                  {"interrupted", EndReason::kInterrupted},
                                                  {"key_revoked", EndReason::kKeyRevoked}};
constexpr conf::Word<TokenSource> kSourceWords[] = {{"none", TokenSource::kNone},
                                                    {"upstream", TokenSource::kUpstream},
                                                    {"counted", TokenSource::kCounted},
                                                    {"estimated", TokenSource::kEstimated},
                                                    {"bound", TokenSource::kBound}};
static_assert(std::size(kKindWords) == kKinds && std::size(kReasonWords) == kEndReasons &&
              std::size(kSourceWords) == kTokenSources);

constexpr std::array<size_t, 7> kOpenCaps = {kMaxRequest, kMaxClientRequest, kMaxTenant, kMaxKey,
                                             kMaxModel,   kMaxApi,           kMaxClient};
constexpr std::array<size_t, 5> kCloseCaps = {kMaxModel, kMaxReplica, kMaxLimit, kMaxError, kMaxReplica};

char* Put(char* to, std::string_view text, size_t cap, uint16_t* length) {
  const size_t n = std::min(text.size(), cap);
  if (n > 0) std::memcpy(to, text.data(), n);
  *length = static_cast<uint16_t>(n);
  return to + n;
}

// Takes the strings that `lengths` describe from the front of `rest`.
bool Take(std::string_view* rest, std::span<const uint16_t> lengths,
          std::span<std::string_view* const> into) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (rest->size() < lengths[i]) return false;
    *into[i] = rest->substr(0, lengths[i]);
    rest->remove_prefix(lengths[i]);
  }
  return true;
}

}  // namespace

std::string_view Name(Kind kind) {
  return conf::WordOf(kKindWords, kind);
}
std::string_view Name(EndReason reason) {
  return conf::WordOf(kReasonWords, reason);
}
std::string_view Name(TokenSource source) {
  return conf::WordOf(kSourceWords, source);
}
std::string_view Name(ContentPart part) {
  constexpr std::array<std::string_view, kContentParts> kNames = {"prompt", "answer", "upstream_error"};
  return kNames[static_cast<size_t>(part)];
}

std::optional<Kind> ParseKind(std::string_view name) {
  return conf::ValueOf(kKindWords, name);
}

std::optional<EndReason> ParseEndReason(std::string_view name) {
  return conf::ValueOf(kReasonWords, name);
}

bool IsError(EndReason reason) {
  return reason != EndReason::kDone && reason != EndReason::kLength && reason != EndReason::kClientGone;
}

size_t EncodeOpen(const OpenRecord& record, char* to, FrameType type) {
  OpenHead head{};
  head.type = static_cast<uint8_t>(type);
  head.stream = record.stream ? 1 : 0;
  head.time_us = record.time_us;
  const std::array<std::string_view, 7> text = {record.request, record.client_request, record.tenant,
                                                record.key,     record.model,          record.api,
                                                record.client};
  char* end = to + sizeof head;
  for (size_t i = 0; i < text.size(); ++i) end = Put(end, text[i], kOpenCaps[i], &head.length[i]);
  std::memcpy(to, &head, sizeof head);
  return static_cast<size_t>(end - to);
}

size_t EncodeClose(const CloseRecord& record, uint64_t open_n, char* to) {
  const Counts& counts = record.counts;
  CloseHead head{.type = static_cast<uint8_t>(FrameType::kClose),
                 .reason = static_cast<uint8_t>(record.reason),
                 .source = static_cast<uint8_t>(counts.source),
                 .status = record.status,
                 .attempts = counts.attempts,
                 .open_n = open_n,
                 .time_us = record.time_us,
                 .cost_micro_usd = counts.cost_micro_usd,
                 .ttft_us = counts.ttft_us,
                 .queue_us = record.queue_us,
                 .itl_mean_us = record.itl_mean_us,
                 .itl_max_us = record.itl_max_us,
                 .total_us = record.total_us,
                 .overhead_us = record.overhead_us,
                 .input = counts.input,
                 .cached = counts.cached,
                 .output = counts.output,
                 .bytes_in = counts.bytes_in,
                 .bytes_out = counts.bytes_out};
  const std::array<std::string_view, 5> text = {record.served_model, record.replica, record.limit,
                                                record.error, record.prefill};
  char* end = to + sizeof head;
  for (size_t i = 0; i < text.size(); ++i) end = Put(end, text[i], kCloseCaps[i], &head.length[i]);
  std::memcpy(to, &head, sizeof head);
  return static_cast<size_t>(end - to);
}

size_t ContentPayload(const ContentRecord& record) {
  const size_t sealing = record.key == nullptr ? 0 : record.key->id().size() + ContentKey::kOverhead;
  return sizeof(ContentHead) + std::min(record.text.size(), kMaxContent) + sealing;
}

size_t EncodeContent(const ContentRecord& record, uint64_t open_n, char* to) {
  const std::string_view text = record.text.substr(0, kMaxContent);
  const std::string_view key = record.key == nullptr ? std::string_view() : record.key->id();
  const size_t length = text.size() + (record.key == nullptr ? 0 : ContentKey::kOverhead);
  const ContentHead head{.type = static_cast<uint8_t>(FrameType::kContent),
                         .part = static_cast<uint8_t>(record.part),
                         .key_length = static_cast<uint16_t>(key.size()),
                         .length = static_cast<uint32_t>(length),
                         .open_n = open_n,
                         .time_us = record.time_us,
                         .full_bytes = std::max<uint64_t>(record.full_bytes, record.text.size())};
  std::memcpy(to, &head, sizeof head);
  char* body = to + sizeof head;
  if (record.key != nullptr) {
    std::memcpy(body, key.data(), key.size());
    body += key.size();
    record.key->Seal(text, body);
  } else if (!text.empty()) {
    std::memcpy(body, text.data(), text.size());
  }
  return static_cast<size_t>(body - to) + length;
}

bool DecodeOpen(std::string_view payload, OpenRecord* record, size_t* size) {
  OpenHead head;
  if (payload.size() < sizeof head) return false;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.type != static_cast<uint8_t>(FrameType::kOpen) &&
      head.type != static_cast<uint8_t>(FrameType::kRefusal)) {
    return false;
  }
  std::string_view rest = payload.substr(sizeof head);
  const std::array<std::string_view*, 7> into = {&record->request, &record->client_request, &record->tenant,
                                                 &record->key,     &record->model,          &record->api,
                                                 &record->client};
  if (!Take(&rest, head.length, into)) return false;
  record->time_us = head.time_us;
  record->stream = head.stream != 0;
  *size = payload.size() - rest.size();
  return true;
}

bool DecodeClose(std::string_view payload, CloseRecord* record, uint64_t* open_n) {
  CloseHead head;
  if (payload.size() < sizeof head) return false;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.type != static_cast<uint8_t>(FrameType::kClose) || head.reason >= kEndReasons ||
      head.source >= kTokenSources) {
    return false;
  }
  std::string_view rest = payload.substr(sizeof head);
  const std::array<std::string_view*, 5> into = {&record->served_model, &record->replica, &record->limit,
                                                 &record->error, &record->prefill};
  if (!Take(&rest, head.length, into)) return false;
  *open_n = head.open_n;
  record->time_us = head.time_us;
  record->reason = static_cast<EndReason>(head.reason);
  record->status = head.status;
  record->counts = {.input = head.input,
                    .cached = head.cached,
                    .output = head.output,
                    .cost_micro_usd = head.cost_micro_usd,
                    .bytes_in = head.bytes_in,
                    .bytes_out = head.bytes_out,
                    .ttft_us = head.ttft_us,
                    .attempts = head.attempts,
                    .source = static_cast<TokenSource>(head.source)};
  record->queue_us = head.queue_us;
  record->itl_mean_us = head.itl_mean_us;
  record->itl_max_us = head.itl_max_us;
  record->total_us = head.total_us;
  record->overhead_us = head.overhead_us;
  return true;
}

bool DecodeContent(std::string_view payload, ContentRecord* record, uint64_t* open_n) {
  ContentHead head;
  if (payload.size() < sizeof head) return false;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.type != static_cast<uint8_t>(FrameType::kContent) || head.part >= kContentParts ||
      payload.size() - sizeof head < uint64_t{head.key_length} + head.length ||
      (head.key_length > 0 && head.length < ContentKey::kOverhead)) {
    return false;
  }
  *open_n = head.open_n;
  record->time_us = head.time_us;
  record->part = static_cast<ContentPart>(head.part);
  record->sealed_by = payload.substr(sizeof head, head.key_length);
  record->text = payload.substr(sizeof head + head.key_length, head.length);
  record->full_bytes = head.full_bytes;
  return true;
}

}  // namespace gateway::ledger
