#include "scheduler/work.h"

#include "conf/words.h"

namespace scheduler {

constexpr conf::Word<WorkClass> kWorkClasses[] = {{"training", WorkClass::kTraining},
                                                  {"inference", WorkClass::kInference},
                                                  {"batch", WorkClass::kBatch},
                                                  {"array", WorkClass::kArray},
                                                  {"notebook", WorkClass::kNotebook}};

conf::Words<WorkClass> WordsOf(WorkClass) {
  return kWorkClasses;
}

std::string_view Name(WorkClass work) {
  return conf::WordOf(kWorkClasses, work);
}

constexpr conf::Word<Isolation> kIsolations[] = {
    {"none", Isolation::kNone}, {"tenant", Isolation::kTenant}, {"node", Isolation::kNode}};

conf::Words<Isolation> WordsOf(Isolation) {
  return kIsolations;
}

std::string_view Name(Isolation isolation) {
  return conf::WordOf(kIsolations, isolation);
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
