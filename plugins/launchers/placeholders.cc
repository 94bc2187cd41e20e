#include "plugins/launchers/placeholders.h"

#include <absl/strings/str_replace.h>

#include "conf/text.h"

namespace plugins::launchers {

std::string FillPlaceholders(std::string_view text, const RunSpec& run, const ListenAt& at) {
  return absl::StrReplaceAll(conf::Abseil(text), {{"{host}", at.host},
                                                  {"{port}", std::to_string(at.port)},
                                                  {"{node}", run.grant.node},
                                                  {"{id}", run.id},
                                                  {"{rank}", std::to_string(run.gang.rank)},
                                                  {"{size}", std::to_string(run.gang.size)},
                                                  {"{leader}", run.gang.leader},
                                                  {"{leader_port}", std::to_string(run.gang.leader_port)}});
}

}  // namespace plugins::launchers
