#include "gateway/admin/schemas.h"

#include <array>
#include <string>

namespace gateway::admin {
namespace {

using nlohmann::ordered_json;

// One object: its members and their types in order, "name:type name:type ...". A type is string, whole,
// number, boolean, object, time, strings and wholes (lists), or another object's name; with "?" it may be
// null, with
// "*" it may be absent.
struct Shape {
  const char* name;
  const char* members;
  bool listed = false;  // there is NAMEList too
};

constexpr std::array kShapes = {
    Shape{"Alive", "status:string"},
    Shape{"Condition", "part:string detail:string fatal:boolean"},
    Shape{"Readiness",
          "ready:boolean status:string degraded:[Condition] warnings:[Condition] scaling:boolean "
          "config_sha256:string version:string"},
    Shape{"Tenant",
          "path:string name:string parent:string? models:strings endpoints:strings priority:string "
          "weight:whole store_content:string",
          true},
    Shape{"Price",
          "input:string? cached_input:string? cache_write:string? output:string? image:string? "
          "audio_second:string? characters:string?"},
    Shape{"Lora", "base:string adapter:string"},
    Shape{"Model",
          "name:string aliases:strings routing:string price:Price context:whole? max_output_tokens:whole? "
          "endpoints:strings lora:Lora? fallbacks:strings",
          true},
    Shape{"Adapters",
          "loaded:strings loading:strings lacking:strings others:whole slots:whole? load_ms:number?"},
    Shape{"Endpoint",
          "id:string model:string name:string url:string engine:string role:string weight:whole "
          "endpoints:strings "
          "health:string breaker:string resting:boolean standing:string unused_because:string? "
          "outstanding_requests:whole outstanding_tokens:whole adapters:Adapters? kv_events:string?",
          true},
    Shape{"Band", "name:string reserved:number waiting:whole bytes:whole oldest_ms:whole"},
    Shape{"Waiting",
          "request_id:string tenant:string band:string ahead:whole waited_ms:whole expected_wait_ms:whole? "
          "reason:string"},
    Shape{"Queue",
          "model:string enabled:boolean waiting:whole bytes:whole max_requests:whole max_bytes:whole "
          "expected_wait_ms:whole? drain_per_second:number replicas:whole replicas_with_room:whole "
          "bands:[Band] requests:[Waiting]",
          true},
    Shape{"Quantiles", "p50:number p90:number p99:number"},
    Shape{"TrafficOfClass",
          "class:string requests_per_second:number prompt_tokens_per_second:number "
          "refusals_per_second:number first_token_ms:Quantiles? inter_token_ms:Quantiles?"},
    Shape{
        "Traffic",
        "model:string window_s:number requests_per_second:number errors_per_second:number "
        "output_tokens_per_second:number outstanding_requests:whole waiting:whole first_token_ms:Quantiles? "
        "inter_token_ms:Quantiles? classes:[TrafficOfClass]",
        true},
    Shape{"ReplicaMember",
          "rank:whole run:string node:string device_kind:string? devices:strings state:string "
          "reason:string?"},
    Shape{"Replica",
          "id:string model:string state:string node:string? device_kind:string? devices:strings "
          "members:[ReplicaMember] address:string? age_ms:whole in_state_ms:whole adopted:boolean "
          "outstanding_requests:whole "
          "reason:string",
          true},
    Shape{"ScalingOfClass",
          "class:string requests:whole refused_requests:whole first_tokens_in_time:whole "
          "first_tokens_late:whole first_tokens_hopeless:whole outstanding_requests:whole "
          "held_requests:whole held_prompt_tokens:whole oldest_ms:whole"},
    Shape{"ColdStart", "device_kind:string? starts:whole p50_ms:whole p90_ms:whole"},
    Shape{
        "Scaling",
        "model:string policy:string law:string min:whole max:whole demand:number wanted:whole reason:string "
        "headroom:number capacity_by:string outstanding_requests:number held_requests:number waiting:whole "
        "launching:whole warming:whole ready:whole draining:whole stopping:whole failed_starts:whole "
        "next_start:time? "
        "trouble:string? cold_starts:[ColdStart] classes:[ScalingOfClass]",
        true},
    Shape{"ScalingStep",
          "at:time seconds:number work:number arrivals_per_second:number outstanding_requests:number "
          "held_requests:number occupied:number ready:number there:number demand:number"},
    Shape{"ScalingHistory",
          "model:string file:string policy:object members:whole devices_per_replica:number "
          "cold_start_p90_ms:whole? steps:[ScalingStep]"},
    Shape{"Limit",
          "id:string scope:string limit:string model:string? device:string? unit:string capacity:whole "
          "share:whole used:whole "
          "reserved:whole remaining:whole refused_requests:whole overrun:whole period_start:time? "
          "period_end:time?",
          true},
    Shape{"Key",
          "id:string tenant:string* role:string* rights:strings* name:string* models:strings* "
          "endpoints:strings* created:time "
          "expires:time* priority:string* limits:object* created_by:string* rotated_from:string* "
          "revoked_at:time* replaced_by:string* overlap_until:time* state:string",
          true},
    Shape{
        "NewKey",
        "id:string tenant:string* role:string* rights:strings* name:string* models:strings* "
        "endpoints:strings* created:time "
        "expires:time* priority:string* limits:object* created_by:string* rotated_from:string* state:string "
        "secret:string"},
    Shape{"UsageRow",
          "tenant:string* key:string* model:string* replica:string* api:string* reason:string* hour:time* "
          "day:time* "
          "requests:whole errors:whole failed:whole input_tokens:whole cached_tokens:whole output_tokens:whole "
          "cost_micro_usd:whole job:string* device_seconds:DeviceSeconds"},
    Shape{"UsageList", "object:string since:time? until:time? data:[UsageRow] has_more:boolean next:string*"},
    Shape{"JobSubmission", "object:string jobs:strings"},
    Shape{
        "Job",
        "id:string name:string work:string state:string since:time reason:string queue:string tenant:string? "
        "user:string priority:whole submitted:time members:whole min_members:whole max_members:whole "
        "devices:whole attempt:whole restarts:whole",
        true},
    Shape{"JobMember",
          "rank:whole run:string node:string kind:string? devices:wholes state:string exit_code:whole? "
          "why:string?"},
    Shape{
        "JobDetail",
        "id:string name:string work:string state:string since:time reason:string queue:string tenant:string? "
        "user:string priority:whole submitted:time members:whole min_members:whole max_members:whole "
        "devices:whole attempt:whole restarts:whole runs:[JobMember] file:string?"},
    Shape{"JobExplanation", "id:string state:string text:strings"},
    Shape{"JobLog", "id:string rank:whole attempt:whole over:boolean cut:boolean next:whole text:string"},
    Shape{"Device",
          "device:whole healthy:boolean cordoned:boolean reason:string? free:number held_by:strings"},
    Shape{"Node",
          "name:string health:string health_reason:string? kind:string? devices:whole free:number "
          "each:[Device]",
          true},
    Shape{"JobQueue",
          "name:string parent:string? deserved:number used:number asked:number jobs_running:whole "
          "jobs_waiting:whole usage_device_hours:number",
          true},
    Shape{"RecordList", "object:string data:[Record] has_more:boolean next_from_seq:whole"},
    Shape{"ErasedKey", "tenant:string key:string"},
    Shape{"ErasedContent", "tenant:string at:time erased:[ErasedKey]"},
    Shape{"AppliedConfig", "sha256:string loaded_at:time"},
    Shape{"Reloads", "applied:whole refused:whole last_ok:boolean last_at:time? why:string"},
    Shape{"Config", "sha256:string loaded_at:time reloads:Reloads config:object"},
    Shape{"ErrorDetail", "param:string message:string"},
    Shape{"ErrorObject",
          "message:string type:string param:string? code:string request_id:string* details:[ErrorDetail]*"},
    Shape{"Error", "error:ErrorObject"},
};

ordered_json Reference(std::string_view name) {
  return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

ordered_json TypeOf(std::string_view type) {
  if (type == "string") return {{"type", "string"}};
  if (type == "whole") return {{"type", "integer"}};
  if (type == "number") return {{"type", "number"}};
  if (type == "boolean") return {{"type", "boolean"}};
  if (type == "object") return {{"type", "object"}};
  if (type == "time") return {{"type", "string"}, {"format", "date-time"}};
  if (type == "wholes") return {{"type", "array"}, {"items", {{"type", "integer"}}}};
  if (type == "strings") return {{"type", "array"}, {"items", {{"type", "string"}}}};
  if (type.front() == '[') return {{"type", "array"}, {"items", Reference(type.substr(1, type.size() - 2))}};
  return Reference(type);
}

ordered_json SchemaOf(std::string_view members) {
  ordered_json schema = {{"type", "object"}, {"properties", ordered_json::object()}};
  ordered_json required = ordered_json::array();
  while (!members.empty()) {
    std::string_view member = members.substr(0, members.find(' '));
    members.remove_prefix(std::min(member.size() + 1, members.size()));
    const bool optional = member.back() == '*';
    const bool nullable = member.back() == '?';
    if (optional || nullable) member.remove_suffix(1);
    const std::string name(member.substr(0, member.find(':')));
    ordered_json type = TypeOf(member.substr(name.size() + 1));
    if (nullable && type.contains("type")) {
      type["type"] = {type["type"], "null"};
    } else if (nullable) {
      type = {{"anyOf", {std::move(type), {{"type", "null"}}}}};
    }
    schema["properties"][name] = std::move(type);
    if (!optional) required.push_back(name);
  }
  schema["required"] = std::move(required);
  return schema;
}

ordered_json Build() {
  ordered_json schemas;
  for (const Shape& shape : kShapes) {
    schemas[shape.name] = SchemaOf(shape.members);
    if (!shape.listed) continue;
    schemas[std::string(shape.name) + "List"] =
        SchemaOf("object:string data:[" + std::string(shape.name) + "] has_more:boolean next:string*");
  }
  schemas["Record"] = {
      {"type", "object"},
      {"description",
       "A record in the form of the ledger; its members depend on "
       "its kind"},
      {"properties",
       {{"seq", {{"type", "integer"}}},
        {"time_us", {{"type", "integer"}, {"description", "Microseconds since the Unix epoch"}}},
        {"kind", {{"type", "string"}}}}},
      {"required", {"seq", "time_us", "kind"}}};
  schemas["DeviceSeconds"] = {{"type", "object"},
                              {"description", "Of whole devices, by their kind"},
                              {"additionalProperties", {{"type", "number"}}}};
  schemas["Document"] = {{"type", "object"}};
  return schemas;
}

}  // namespace

const ordered_json& Schemas() {
  static const ordered_json schemas = Build();
  return schemas;
}

}  // namespace gateway::admin
