// What someone asks for when a key is to be made, checked against the configuration, for the command line and
// the admin API alike.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/time.h"
#include "gateway/api/field_problem.h"
#include "gateway/config/config.h"
#include "plugins/auth/key_record.h"

namespace gateway {

struct KeyRequest {
  std::string tenant;               // name or path; exactly one of tenant and role
  std::string role;                 // of an admin key: viewer, operator, admin
  std::vector<std::string> rights;  // of an admin key: submit_jobs
  std::string name;
  std::vector<std::string> models;     // names, aliases or globs
  std::vector<std::string> endpoints;  // families: chat, embeddings, …
  std::string expires;                 // "30d", or a time as RFC 3339 or a date
  std::string priority;                // a band of a queue: low, normal, high, …; empty: the tenant's
  std::string limits;                  // JSON: key_limits.h
  std::string created_by;
  std::string owner;  // the person whose own key it is; empty: nobody's
  // Of a caller with roles over some tenants only: the models that they may know of. Such a caller makes no key that
  // is more urgent than its tenant. Nothing: a caller with a role over everything.
  std::optional<std::vector<std::string>> visible_models{};
};

// Every problem at once; `spec` is complete when there is none.
std::vector<FieldProblem> CheckKeyRequest(const KeyRequest& request, const Config& config,
                                          conf::TimePoint now, plugins::auth::KeySpec& spec);

// A moment after `now`, given as how long from now or as a time; nothing for other text.
std::optional<conf::TimePoint> ParseExpiry(std::string_view text, conf::TimePoint now);

}  // namespace gateway
