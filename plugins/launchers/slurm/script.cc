#include "plugins/launchers/slurm/script.h"

#include <absl/strings/str_replace.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "plugins/launchers/wrapper/protocol.h"

namespace plugins::launchers::slurm {
namespace {

using Json = nlohmann::json;

// Slurm signals all processes of a job, the shell too: it ignores what the command may handle, and a handler,
// unlike an ignored signal, is not inherited. `command -p` finds the tools whatever PATH the run was given.
constexpr std::string_view kScript = R"(#!/bin/sh
trap : HUP INT QUIT ALRM TERM USR1 USR2
now() {
  t=$(command -p date +%s%6N)
  case $t in *[!0-9]*) t=$(command -p date +%s)000000 ;; esac
  echo "$t"
}
result=@RESULT@
{
  printf '%-@PAD@s\n' @FIRST@"$$,\"started\":$(now)}"
  printf '%-@PAD@s\n' ''
} > "$result" && command -p sync "$result"
@COMMAND@
status=$?
signal=null
code=$status
if [ "$status" -gt 128 ]; then
  signal=$((status - 128))
  code=null
fi
printf '%-@PAD@s\n' "{\"ended\":$(now),\"exit_code\":$code,\"signal\":$signal,\"killed\":false}" |
  command -p dd of="$result" bs=@BLOCK@ seek=1 iflag=fullblock conv=notrunc,fsync 2> /dev/null
if [ "$signal" != null ]; then
  trap - "$signal"
  kill -"$signal" $$
fi
exit "$status"
)";

std::string Quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted += '\'';
}

std::string Line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + Quoted(word);
  return line;
}

}  // namespace

std::string RenderScript(const std::vector<std::string>& command) {
  return "#!/bin/sh\nexec " + Line(command) + "\n";
}

std::string RenderScript(const std::vector<std::string>& command, const KeptResult& result) {
  // All of the first line up to the pid of the shell, whose processes the run's are.
  std::string first = Json{{"run", result.run}, {"mark", result.mark}, {"child_ticks", 0}}.dump();
  first.pop_back();
  first += ",\"child\":";
  return absl::StrReplaceAll(kScript.data(), {{"@RESULT@", Quoted(result.file)},
                                              {"@FIRST@", Quoted(first)},
                                              {"@COMMAND@", Line(command)},
                                              {"@PAD@", std::to_string(wrapper::kBlockBytes - 1)},
                                              {"@BLOCK@", std::to_string(wrapper::kBlockBytes)}});
}

}  // namespace plugins::launchers::slurm
