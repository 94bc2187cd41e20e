// Answers of the admin API about the gateways that share a store.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct Gateway {
  static constexpr std::string_view kSchema = "Gateway";

  std::string name = {};
  std::string_view role = {};  // leads: it starts and stops workloads; follows; gone: not heard of any more
  bool self = false;           // it is the one that answers
  std::string version = {};
  std::string address = {};  // of its admin listener
  uint64_t epoch = 0;        // of its lead; 0: it does not lead
  Time since = {};           // its start
  int64_t seen_ms = 0;       // since its last news
  uint64_t lag = 0;          // changes of the store that it had not applied then
};

template <class O>
constexpr void Bind(O& o, Gateway& gateway) {
  o.Required("name", gateway.name);
  o.Required("role", gateway.role);
  o.Required("self", gateway.self);
  o.Required("version", gateway.version);
  o.Required("address", gateway.address);
  o.Required("epoch", gateway.epoch);
  o.Required("since", gateway.since);
  o.Required("seen_ms", gateway.seen_ms);
  o.Required("lag", gateway.lag);
}

}  // namespace gateway::admin::answers
