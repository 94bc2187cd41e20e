// Answers of the admin API from the ledger.
#pragma once

#include <nlohmann/json.hpp>

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/audit/feedback_usage.h"
#include "gateway/audit/shown_usage.h"

namespace gateway::admin::answers {

// How current the figures of one gateway are.
struct UsageOfGateway {
  static constexpr std::string_view kSchema = "UsageOfGateway";

  std::string gateway = {};
  std::string ledger = {};
  bool self = false;     // it is the one that answers: its figures are those of now
  bool stopped = false;  // its figures are whole
  Time as_of = {};
};

template <class O>
constexpr void Bind(O& o, UsageOfGateway& of) {
  o.Required("gateway", of.gateway);
  o.Required("ledger", of.ledger);
  o.Required("self", of.self);
  o.Required("stopped", of.stopped);
  o.Required("as_of", of.as_of);
}

struct UsageList {
  static constexpr std::string_view kSchema = "UsageList";

  std::string object = "list";
  std::optional<Time> since;
  std::optional<Time> until;
  // Where several gateways share a store: the time of the oldest figures, and of each gateway's, for callers who may
  // see gateways.
  std::optional<Time> as_of;
  std::optional<std::vector<UsageOfGateway>> gateways;
  std::vector<ShownUsage> data;
  bool has_more = false;
  std::optional<std::string> next;
};

template <class O>
constexpr void Bind(O& o, UsageList& list) {
  o.Required("object", list.object);
  o.Required("since", list.since);
  o.Required("until", list.until);
  o.Optional("as_of", list.as_of);
  o.Optional("gateways", list.gateways);
  o.Required("data", list.data);
  o.Required("has_more", list.has_more);
  o.Optional("next", list.next);
}

struct FeedbackList {
  static constexpr std::string_view kSchema = "FeedbackList";

  std::string object = "list";
  std::optional<Time> since;
  std::optional<Time> until;
  // As in UsageList.
  std::optional<Time> as_of;
  std::optional<std::vector<UsageOfGateway>> gateways;
  std::vector<ShownFeedback> data;
  bool has_more = false;
  std::optional<std::string> next;
};

template <class O>
constexpr void Bind(O& o, FeedbackList& list) {
  o.Required("object", list.object);
  o.Required("since", list.since);
  o.Required("until", list.until);
  o.Optional("as_of", list.as_of);
  o.Optional("gateways", list.gateways);
  o.Required("data", list.data);
  o.Required("has_more", list.has_more);
  o.Optional("next", list.next);
}

// A statement, as audit/statement.h writes it.
struct Statement {
  static constexpr std::string_view kSchema = "Statement";

  static nlohmann::ordered_json DescribeSchema() {
    return {{"type", "object"},
            {"description",
             "Lines by tenant, model and job with whole numbers; the digest is the SHA-256 of the bytes "
             "before it"},
            {"properties",
             {{"tenant", {{"type", "string"}}},
              {"month", {{"type", "string"}}},
              {"state", {{"type", "string"}, {"description", "final, so_far or incomplete"}}},
              {"ledgers",
               {{"type", "array"},
                {"description", "Of several gateways: those whose ledgers have figures of the month"},
                {"items", {{"type", "string"}}}}},
              {"behind",
               {{"type", "array"},
                {"description", "Those that have not told all of the month"},
                {"items", {{"type", "string"}}}}},
              {"as_of",
               {{"type", {"string", "null"}}, {"description", "Time of the oldest figures, if not final"}}},
              {"lines", {{"type", "array"}, {"items", {{"type", "object"}}}}},
              {"total", {{"type", "object"}}},
              {"digest", {{"type", "string"}}}}},
            {"required", {"tenant", "month", "state", "lines", "total", "digest"}}};
  }
};

// A record as the ledger has it, on a line of JSON.
struct Record {
  static constexpr std::string_view kSchema = "Record";

  static nlohmann::ordered_json DescribeSchema() {
    return {{"type", "object"},
            {"description", "A record in the form of the ledger; its members depend on its kind"},
            {"properties",
             {{"seq", {{"type", "integer"}}},
              {"time_us", {{"type", "integer"}, {"description", "Microseconds since the Unix epoch"}}},
              {"kind", {{"type", "string"}}}}},
            {"required", {"seq", "time_us", "kind"}}};
  }
};

struct BadRecord {
  static constexpr std::string_view kSchema = "BadRecord";

  std::string segment = {};
  uint64_t line = 0;  // from 1; 0: the segment as a whole
  uint64_t seq = 0;   // 0: not known
  std::string why = {};
};

template <class O>
constexpr void Bind(O& o, BadRecord& bad) {
  o.Required("segment", bad.segment);
  o.Required("line", bad.line);
  o.Required("seq", bad.seq);
  o.Required("why", bad.why);
}

// The last verification of the ledger that the gateway did itself.
struct Verification {
  static constexpr std::string_view kSchema = "Verification";

  std::string_view state = {};  // never, running, good, bad, failed, stopped
  std::string by = {};
  std::optional<Time> began = {};
  std::optional<Time> ended = {};
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  uint64_t records = 0;
  uint64_t segments = 0;
  uint64_t first_seq = 0;
  uint64_t last_seq = 0;
  std::string last_chain = {};
  uint64_t checkpoints = 0;
  uint64_t last_checkpoint_seq = 0;
  uint64_t unsigned_records = 0;
  std::optional<BadRecord> first_bad = {};
  std::string why = {};  // it failed
};

template <class O>
constexpr void Bind(O& o, Verification& of) {
  o.Required("state", of.state);
  o.Required("by", of.by);
  o.Required("began", of.began);
  o.Required("ended", of.ended);
  o.Required("done_bytes", of.done_bytes);
  o.Required("total_bytes", of.total_bytes);
  o.Required("records", of.records);
  o.Required("segments", of.segments);
  o.Required("first_seq", of.first_seq);
  o.Required("last_seq", of.last_seq);
  o.Required("last_chain", of.last_chain);
  o.Required("checkpoints", of.checkpoints);
  o.Required("last_checkpoint_seq", of.last_checkpoint_seq);
  o.Required("unsigned_records", of.unsigned_records);
  o.Required("first_bad", of.first_bad);
  o.Required("why", of.why);
}

// A proof, as ledger/proof.h writes it.
struct Proof {
  static constexpr std::string_view kSchema = "Proof";

  static nlohmann::ordered_json DescribeSchema() {
    return {
        {"type", "object"},
        {"description",
         "A record and all lines up to the next signed checkpoint; tidegate audit verify --proof checks it"},
        {"properties",
         {{"record", {{"type", "integer"}}},
          {"previous", {{"type", "string"}, {"description", "The chain before the record, in hex"}}},
          {"lines", {{"type", "array"}, {"items", {{"type", "string"}}}}}}},
        {"required", {"record", "previous", "lines"}}};
  }
};

struct RecordList {
  static constexpr std::string_view kSchema = "RecordList";

  std::string object = "list";
  std::vector<Record> data;
  bool has_more = false;
  uint64_t next_from_seq = 0;
};

template <class O>
constexpr void Bind(O& o, RecordList& list) {
  o.Required("object", list.object);
  o.Required("data", list.data);
  o.Required("has_more", list.has_more);
  o.Required("next_from_seq", list.next_from_seq);
}

}  // namespace gateway::admin::answers
