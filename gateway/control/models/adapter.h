// A LoRA adapter that an operator has loaded at run time, as the store keeps it (kind `adapter`, id BASE|NAME).
//
// Pure.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>

#include "conf/time.h"

namespace gateway::control {

struct Adapter {
  std::string base{};    // the model whose engines load it
  std::string name{};    // at those engines
  std::string source{};  // where engines load it from
  std::string by{};      // who loaded it: an admin key's id, a person
  conf::TimePoint since{};
  bool leaves = false;  // engines unload it; once none holds it, it is forgotten

  bool operator==(const Adapter&) const = default;
};

// The ledger's words.
inline constexpr std::string_view kLoadAdapterAction = "adapter.load";
inline constexpr std::string_view kUnloadAdapterAction = "adapter.unload";
inline constexpr std::string_view kRefusedAdapterAction =
    "adapter.refused";  // by the engines: it is forgotten
inline constexpr std::string_view kDisplacedAdapterAction = "adapter.displace";  // its slot was needed
inline constexpr std::string_view kForgottenAdapterAction = "adapter.gone";  // no engine holds it any more

std::string IdOf(std::string_view base, std::string_view name);
std::string BodyOf(const Adapter& adapter);
// DataLoss names the object.
absl::StatusOr<Adapter> ReadAdapter(const std::string& id, const std::string& body);
// The detail of its records in the ledger. `replica` and `why` may be empty.
std::string DetailOf(const Adapter& adapter, std::string_view replica = {}, std::string_view why = {});

// A record of the ledger.
struct AdapterRecord {
  std::string_view action;
  std::string_view actor;
  std::string_view subject;
  std::string_view detail;
  conf::TimePoint at{};
};
// Applies a record to the adapters, by id. False: it is no record of an adapter.
bool TakeRecord(const AdapterRecord& record, std::map<std::string, Adapter>& adapters);

}  // namespace gateway::control
