// Section `tenants`: the tree of tenants, the models that each may use, and its limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conf/words.h"
#include "gateway/config/parameters.h"
#include "gateway/config/placing.h"
#include "gateway/config/types.h"

namespace gateway::config {

// The longest path of a tenant, in bytes: a record of the ledger has room for it.
inline constexpr size_t kMaxTenantPath = 256;

// Absent is no limit. Zero is refused: to forbid a model, do not list it.
struct Limits {
  std::optional<uint64_t> requests_per_minute;
  std::optional<uint64_t> tokens_per_minute;  // input and output together
  std::optional<uint64_t> input_tokens_per_minute;
  std::optional<uint64_t> output_tokens_per_minute;
  std::optional<uint32_t> concurrency;

  friend bool operator==(const Limits&, const Limits&) = default;
};

enum class Period : uint8_t { kDay, kWeek, kMonth };  // calendar periods in UTC; a week begins on Monday
std::string_view Name(Period period);
conf::Words<Period> PeriodWords();

// At least one of the amounts.
struct Budget {
  std::optional<int64_t> micro_usd;
  std::optional<uint64_t> tokens;
  std::optional<double> device_hours;  // that replicas and jobs hold for it
  Period period = Period::kMonth;
  std::string model;   // empty: any model
  std::string device;  // of device_hours: the kind; empty: all kinds together
};

enum class StoreContent : uint8_t { kNone, kPrompts, kFull };
inline constexpr uint32_t kMaxShare = 1000;

struct Tenant {
  std::string name;
  std::string parent;                              // empty: a root
  std::optional<std::vector<std::string>> models;  // names or globs; absent: the parent's. A root has them.
  std::optional<ApiSet> endpoints;                 // absent: the parent's, and all of them for a root
  Limits limits;                                   // over any model, all descendants included
  std::map<std::string, Limits> per_model;         // `limits.per_model`, by model name
  std::optional<uint64_t> body_memory;             // `limits.body_memory`; absent: half of the server's
  std::vector<Budget> budgets;
  Parameters parameters;  // of its requests' bodies, and of those of tenants below it
  StoreContent store_content = StoreContent::kNone;
  std::string priority = "normal";  // the band that its requests wait in, by name
  uint32_t weight = 1;              // share of the requests dispatched from a queue
  // The group whose tenants use each other's cached prompts; empty: the parent's, or the tenant's own alone.
  std::vector<std::string> share_prefixes;
  std::string run_as;  // the user of its jobs on this machine; empty: its parent's, or scaling.runs.user
  std::vector<std::string> job_secrets;  // globs of the references that its jobs may name, as in env:TEAM_*
  // Labels of the nodes on which its jobs and those of tenants below it may run, beside what its parents say.
  LabelRules residency;
  bool self_service = false;  // its leads make tenants below it, and members, at run time
  // Made at run time, not configured: no option. `parent` is then the parent's path, and only the path names it,
  // so that nobody can take the name of a tenant elsewhere.
  bool at_run_time = false;
  bool disabled = false;  // likewise: it and those below it are refused
};

// "acme/search", from the names of its parents.
std::string PathOf(const std::vector<Tenant>& tenants, const Tenant& tenant);

// Whether jobs of the tenant with that path may name a secret, as in "env:NAME" or "file:PATH": it or one of
// its ancestors lists it. Jobs of no tenant may name none.
bool MayNameSecret(const std::vector<Tenant>& tenants, std::string_view path, std::string_view reference);

// The labels of nodes that jobs of the tenant with that path must keep to: its own and all its ancestors' rules.
std::vector<scheduler::LabelRule> ResidencyOf(const std::vector<Tenant>& tenants, std::string_view path);

void Bind(conf::Object& object, Limits& out);
void Bind(conf::Object& object, Tenant& out);

}  // namespace gateway::config
