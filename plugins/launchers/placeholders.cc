#include "plugins/launchers/placeholders.h"

#include <absl/strings/str_replace.h>

#include "conf/text.h"

namespace plugins::launchers {

std::string FillPlaceholders(std::string_view text, const RunSpec& run, uint16_t port) {
  return absl::StrReplaceAll(conf::Abseil(text), {{"{port}", std::to_string(port)},
                                                  {"{node}", run.grant.node},
                                                  {"{id}", run.id},
                                                  {"{rank}", std::to_string(run.gang.rank)},
                                                  {"{size}", std::to_string(run.gang.size)},
                                                  {"{leader}", run.gang.leader},
                                                  {"{leader_port}", std::to_string(run.gang.leader_port)}});
}

}  // namespace plugins::launchers
