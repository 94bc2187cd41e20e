// What the admin API tells from the ledger.
#pragma once

#include <nlohmann/json.hpp>

#include "gateway/admin/answers/answer_fields.h"
#include "gateway/audit/shown_usage.h"

namespace gateway::admin::answers {

struct UsageList {
  static constexpr std::string_view kSchema = "UsageList";

  std::string object = "list";
  std::optional<Time> since;
  std::optional<Time> until;
  std::vector<ShownUsage> data;
  bool has_more = false;
  std::optional<std::string> next;
};

template <class O>
constexpr void Bind(O& o, UsageList& list) {
  o.Required("object", list.object);
  o.Required("since", list.since);
  o.Required("until", list.until);
  o.Required("data", list.data);
  o.Required("has_more", list.has_more);
  o.Optional("next", list.next);
}

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
