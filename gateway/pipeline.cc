#include "gateway/pipeline.h"

#include <array>

#include "gateway/answer.h"
#include "gateway/handover/hop.h"
#include "gateway/stages/stages.h"

namespace gateway {
namespace {

constexpr std::array<Stage, 9> kStages = {{
    {"route", stages::Route, nullptr},  // which API; before anything else, so that errors fit it
    {"authenticate", stages::Authenticate, nullptr},  // before the body: a stranger's is not read
    {"own_answers", nullptr, stages::AnswerModels},   // what needs no replica
    {"read_body", nullptr, stages::ReadBody},         // whole, or up to the model's name in a form
    {"read_facts", stages::ReadFacts, nullptr},       // scan; model and permission
    {"reserve", stages::Reserve, nullptr},            // all limits at once or none
    {"record_open", nullptr, stages::RecordOpen},     // from here on nothing can be lost
    {"dispatch", nullptr, stages::Dispatch},          // pick, send, retry before the first byte
    {"relay", nullptr, stages::Relay},                // event by event
}};

}  // namespace

net::Task<void> RunPipeline(Exchange& x) {
  for (const Stage& stage : kStages) {
    const Verdict verdict = stage.decide ? stage.decide(x) : co_await stage.wait(x);
    if (verdict == Verdict::kAnswered) break;
    if (verdict == Verdict::kFailed) {
      stages::Charge(x);
      if (x.error) co_await SendError(x);
      break;
    }
  }
  if (x.hop) co_await x.hop->Finish();
  stages::Settle(x);  // always: reservation, ledger close, metrics, trace
}

}  // namespace gateway
