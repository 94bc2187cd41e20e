// Any text at all must be read as an answer of Kubernetes, or refused, without a crash.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "conf/json_parse.h"
#include "plugins/kubernetes/client.h"
#include "plugins/kubernetes/watch.h"
#include "plugins/launchers/kubernetes/answers.h"
#include "plugins/launchers/kubernetes/cluster.h"
#include "plugins/launchers/kubernetes/manifest.h"
#include "plugins/launchers/kubernetes/runs.h"

namespace {

using namespace plugins::launchers::kubernetes;

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadObject(const nlohmann::json& object) {
  if (const auto pod = ReadPod(object)) {
    Require(!pod->name.empty());
    (void)WhyWaiting(*pod);
    (void)WhyEnded(*pod, false);
    (void)ReadMark(pod->mark);
    Runs runs(pod->gateway, {20'000, 20'001});
    runs.Apply(*pod, conf::TimePoint());
    Require(runs.all().size() <= 1);
  }
  if (const auto node = ReadNode(object)) {
    Require(!node->name.empty());
    (void)WhyNot(*node, {});
  }
  (void)WrongPiece(object);
  if (object.is_object()) (void)UnsafePiece(object);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      (void)plugins::kubernetes::ReadPage(text, ReadObject);
      break;
    case 1:
      if (const auto line = plugins::kubernetes::ReadWatchLine(text); line.ok()) ReadObject(line->object);
      break;
    case 2:
      (void)plugins::kubernetes::ErrorOf(410, text, "GET /");
      (void)plugins::kubernetes::RetryAfter(text, text);
      (void)ReadMark(text);
      break;
    default:
      ReadObject(conf::ParseJson(text));
      break;
  }
  return 0;
}
