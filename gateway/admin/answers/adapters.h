// What the admin API tells of LoRA adapters that were loaded at run time.
#pragma once

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

// An adapter at one replica of its base.
struct AdapterPlace {
  static constexpr std::string_view kSchema = "AdapterPlace";

  std::string replica;
  std::string_view state;               // loaded, loading, refused, absent
  std::optional<std::string> why = {};  // refused: the engine's answer
  std::optional<Time> used = {};        // when this gateway's last request for it began there; null: none has
};

template <class O>
constexpr void Bind(O& o, AdapterPlace& place) {
  o.Required("replica", place.replica);
  o.Required("state", place.state);
  o.Required("why", place.why);
  o.Required("used", place.used);
}

struct RunTimeAdapter {
  static constexpr std::string_view kSchema = "RunTimeAdapter";

  std::string name;
  std::optional<std::string> model = {};  // that callers name; null: a configured model has taken the name
  std::string base;
  std::string source;
  std::string by;
  Time since = {};
  std::string_view
      state;  // loaded (somewhere), loading, refused (everywhere), waiting, leaving; of an answer to DELETE also gone
  std::vector<AdapterPlace> replicas = {};
};

template <class O>
constexpr void Bind(O& o, RunTimeAdapter& adapter) {
  o.Required("name", adapter.name);
  o.Required("model", adapter.model);
  o.Required("base", adapter.base);
  o.Required("source", adapter.source);
  o.Required("by", adapter.by);
  o.Required("since", adapter.since);
  o.Required("state", adapter.state);
  o.Required("replicas", adapter.replicas);
}

}  // namespace gateway::admin::answers
