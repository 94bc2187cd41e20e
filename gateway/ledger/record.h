// The records of the ledger: the form in which callers give them, their names, and the compact form in which a shard
// passes them to the ledger thread through its journal. render.h writes the form on disk; parse.h reads it.
//
// Times are microseconds since the Unix epoch, durations are microseconds, money is integer micro-USD, sizes are
// bytes. Views need to be valid only during the call. Strings longer than their cap (below) are cut when they are
// encoded. Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/config/tenant.h"
#include "gateway/ledger/content_key.h"

namespace gateway::ledger {

enum class Kind : uint8_t {
  kOpen,        // a request was admitted
  kClose,       // a request ended; without an open: it was refused before it was admitted
  kContent,     // a prompt or an answer, if the tenant's policy stores them; an engine's error
  kConfig,      // a configuration was loaded, reloaded or refused
  kKey,         // a key was created, rotated or revoked, or has expired
  kAdmin,       // any other change by an administrator
  kAction,      // a scheduling action
  kDevices,     // devices that a model's replicas or a job held
  kStart,       // the process started
  kStop,        // the process stopped properly
  kSegment,     // the first record of a segment: names the chain that it continues
  kCheckpoint,  // signed; also the last record of a sealed segment
  kRetention,   // retention removed segments
  kRecovery,    // the findings and repairs of the ledger after an unclean end
  kRefusals,    // the number of calls without a valid credential
  kFeedback,    // an application's judgement of an answer (feedback.h)
};
inline constexpr size_t kKinds = 16;

enum class EndReason : uint8_t {
  kDone,            // the engine finished
  kLength,          // the answer reached its token limit
  kClientGone,      // the client left first
  kUpstreamFailed,  // no replica could answer, or one failed after the first byte
  kTimedOut,        // a deadline of the gateway or the client passed
  kBadRequest,      // the engine refused the request itself (4xx)
  kRefused,         // never admitted: authentication, permission, limit, full queue
  kInterrupted,     // the gateway died or lost the request; has the counts until then
  kKeyRevoked,      // its key was revoked while the request ran
};
inline constexpr size_t kEndReasons = 9;

enum class TokenSource : uint8_t { kNone, kUpstream, kCounted, kEstimated, kBound };
inline constexpr size_t kTokenSources = 5;

enum class ContentPart : uint8_t {
  kPrompt,
  kAnswer,
  kUpstreamError,  // an engine's error that was not sent to the client
};
inline constexpr size_t kContentParts = 3;

std::string_view Name(Kind kind);
std::string_view Name(EndReason reason);
std::string_view Name(TokenSource source);
std::string_view Name(ContentPart part);
std::optional<Kind> ParseKind(std::string_view name);
std::optional<EndReason> ParseEndReason(std::string_view name);

// Whether `usage` counts this end as an error: every end except done, length and client_gone.
bool IsError(EndReason reason);

struct OpenRecord {
  int64_t time_us = 0;
  std::string_view request = {};         // the gateway's id, unique
  std::string_view client_request = {};  // the client's x-request-id
  std::string_view tenant = {};          // path: organisation/team
  std::string_view key = {};             // the key's id, never the key
  std::string_view model = {};
  std::string_view api = {};     // chat.completions, embeddings, messages, …
  std::string_view client = {};  // address
  bool stream = false;
};

// The use of a request so far; updated while it runs.
struct Counts {
  uint64_t input = 0;  // tokens
  uint64_t cached = 0;
  uint64_t output = 0;
  int64_t cost_micro_usd = 0;
  uint64_t bytes_in = 0;  // bytes_in: of the client's request; bytes_out: of the answer to it
  uint64_t bytes_out = 0;
  int64_t ttft_us = -1;  // time to the first token; -1: none
  uint32_t attempts = 0;
  TokenSource source = TokenSource::kNone;
};

// Tenant, key and model are in the open record; the ledger joins the two.
struct CloseRecord {
  int64_t time_us = 0;
  EndReason reason = EndReason::kDone;
  uint16_t status = 0;  // the HTTP status sent; 0: none
  Counts counts = {};
  int64_t queue_us = -1;     // -1 in any of these: unknown
  int64_t itl_mean_us = -1;  // between tokens
  int64_t itl_max_us = -1;
  int64_t total_us = -1;
  int64_t overhead_us = -1;            // time spent in the gateway itself
  std::string_view served_model = {};  // the model's name at the engine
  std::string_view replica = {};
  std::string_view prefill = {};  // the replica that computed the prompt, if it was another one
  std::string_view limit = {};    // the limit that refused the request
  std::string_view error = {};    // the stable error code of the API
};

// The weight of a token in the use of a device: 1 for a token that the engine reads, kOutputWeight for one that it
// writes, because that takes a step of the whole batch, and 0 for one from its cache. The served tenants share the
// device time by these weights.
inline constexpr uint64_t kOutputWeight = 4;
inline uint64_t DeviceWeight(uint64_t input, uint64_t cached, uint64_t output) {
  return (input > cached ? input - cached : 0) + kOutputWeight * output;
}

// Stands for the tenant of device time in which no request was served; no tenant can have this name.
inline constexpr std::string_view kIdle = "(idle)";

// The devices of one kind that a model's replicas, or a job, held in [from, until), and the share that one tenant
// pays. The records of one interval, of one model or job and one kind, follow each other; their shares add up to the
// time held. Times are whole milliseconds, so that amounts, in thousandths of devices, are whole microseconds. A
// record with neither model nor job has the energy of idle devices, and no device time.
struct DeviceRecord {
  int64_t from_us = 0;  // the record's time
  int64_t until_us = 0;
  std::string tenant{};   // a path, or kIdle
  std::string model{};    // or
  std::string job{};      // id of the job
  std::string device{};   // the kind
  int64_t device_us = 0;  // this tenant's share, in microseconds of a whole device
  int64_t held_us = 0;    // the sum of all shares
  uint64_t weight = 0;    // of this tenant's tokens; 0: the time is not shared by tokens
  // This tenant's share of the energy that the devices drew, as far as it is measured. Energy that was measured after
  // the end of an interval is in the next one.
  int64_t energy_mj = 0;         // millijoules
  int64_t energy_micro_usd = 0;  // by the tariff at the time of the record; 0 without a tariff
  int64_t co2_mg = 0;            // of that energy
};

// An event that does not happen on a shard: of configuration, keys, administration, or scheduling.
struct Event {
  Kind kind = Kind::kAdmin;
  int64_t time_us = 0;       // 0: the time when it is written
  std::string action = {};   // created, revoked, loaded, preempted, …
  std::string actor = {};    // who did it: an admin key's id, a subject, "file", "control"
  std::string subject = {};  // the changed object
  std::string tenant = {};
  std::string detail = {};  // a JSON object, or empty
};

inline constexpr size_t kMaxRequest = 64, kMaxClientRequest = 128, kMaxTenant = config::kMaxTenantPath,
                        kMaxKey = 128, kMaxModel = 128, kMaxApi = 48, kMaxClient = 64, kMaxReplica = 128,
                        kMaxLimit = 128, kMaxError = 64;
inline constexpr size_t kMaxContent = 256 * 1024;
inline constexpr size_t kMaxUpstreamError = 4096;
inline constexpr size_t kMaxEvent = 256 * 1024;  // all texts of an event; a larger event is refused, not cut

// --- The journal's form of a record. ---

enum class FrameType : uint8_t { kOpen = 1, kClose = 2, kRefusal = 3, kContent = 4 };

struct OpenHead {
  uint8_t type;
  uint8_t stream;
  std::array<uint16_t, 7> length;
  int64_t time_us;
};

struct CloseHead {
  uint8_t type;
  uint8_t reason;
  uint8_t source;
  uint8_t unused = 0;
  uint16_t status;
  std::array<uint16_t, 5> length = {};
  uint32_t attempts;
  uint32_t unused3 = 0;
  uint64_t open_n;
  int64_t time_us, cost_micro_usd, ttft_us, queue_us, itl_mean_us, itl_max_us, total_us, overhead_us;
  uint64_t input, cached, output, bytes_in, bytes_out;
};

struct ContentHead {
  uint8_t type;
  uint8_t part;
  uint16_t key_length = 0;  // of the key's name, which comes before the text; 0: the text is not sealed
  uint32_t length;
  uint64_t open_n;
  int64_t time_us;
  uint64_t full_bytes;  // before the cut
};

inline constexpr size_t kMaxOpenPayload = sizeof(OpenHead) + kMaxRequest + kMaxClientRequest + kMaxTenant +
                                          kMaxKey + kMaxModel + kMaxApi + kMaxClient;
inline constexpr size_t kMaxClosePayload =
    sizeof(CloseHead) + kMaxModel + 2 * kMaxReplica + kMaxLimit + kMaxError;

struct ContentRecord {
  int64_t time_us = 0;
  ContentPart part = ContentPart::kPrompt;
  std::string_view text = {};  // for writing: the text itself
  uint64_t full_bytes = 0;
  const ContentKey* key = nullptr;  // for writing: seals the text; null: the text is not sealed
  std::string_view sealed_by = {};  // after reading: the name of the key; `text` is then sealed

  // The size of the stored text.
  uint64_t kept_bytes() const { return text.size() - (sealed_by.empty() ? 0 : ContentKey::kOverhead); }
};
// The number of bytes that EncodeContent writes.
size_t ContentPayload(const ContentRecord& record);

// These write the payload at `to`, which must have room for the largest record of the kind, and return its size.
size_t EncodeOpen(const OpenRecord& record, char* to, FrameType type = FrameType::kOpen);
size_t EncodeClose(const CloseRecord& record, uint64_t open_n, char* to);
size_t EncodeContent(const ContentRecord& record, uint64_t open_n, char* to);

// These set views into `payload`; false: the bytes are not such a record. DecodeOpen also accepts a refusal; `size`
// then says where the close that follows begins.
bool DecodeOpen(std::string_view payload, OpenRecord* record, size_t* size);
bool DecodeClose(std::string_view payload, CloseRecord* record, uint64_t* open_n);
bool DecodeContent(std::string_view payload, ContentRecord* record, uint64_t* open_n);

}  // namespace gateway::ledger
