#include "scheduler/work.h"

namespace scheduler {

std::string_view Name(WorkClass work) {
  switch (work) {
    case WorkClass::kTraining:
      return "training";
    case WorkClass::kInference:
      return "inference";
    case WorkClass::kBatch:
      return "batch";
    case WorkClass::kArray:
      return "array";
    case WorkClass::kNotebook:
      return "notebook";
  }
  return "";
}

std::string_view Name(Isolation isolation) {
  switch (isolation) {
    case Isolation::kNone:
      return "none";
    case Isolation::kTenant:
      return "tenant";
    case Isolation::kNode:
      return "node";
  }
  return "";
}

int64_t DeviceMilli(const DeviceAsk& ask) {
  return ask.count > 0 ? int64_t{ask.count} * kWholeDevice : ask.milli;
}

int64_t DeviceMilli(const Job& job) {
  int64_t milli = 0;
  for (const Role& role : job.roles) {
    if (!role.ask.devices.empty()) milli += DeviceMilli(role.ask.devices.front()) * role.count;
  }
  return milli;
}

uint32_t Members(const Job& job) {
  uint32_t members = 0;
  for (const Role& role : job.roles) members += role.count;
  return members;
}

uint32_t MinMembers(const Job& job) {
  uint32_t members = 0;
  for (const Role& role : job.roles) members += role.min_count;
  return members;
}

}  // namespace scheduler
