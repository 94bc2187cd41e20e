#include "gateway/request/pipeline.h"

#include <array>

#include "gateway/request/answer.h"
#include "gateway/request/charge.h"
#include "gateway/request/stages.h"

namespace gateway {
namespace {

constexpr std::array<Stage, 15> kStages = {{
    {"route", stages::Route, nullptr},                // first: the API gives errors their form
    {"authenticate", stages::Authenticate, nullptr},  // before the body: a stranger's body is not read
    // These three need no replica.
    {"answer_models", stages::AsksForModels, stages::AnswerModels},
    {"answer_files", stages::AsksForFiles, stages::AnswerFiles},  // files and batches
    {"answer_feedback", stages::BringsFeedback, stages::AnswerFeedback},
    {"check_body", stages::CheckBody, nullptr},         // its coding and type; reads only the head
    {"claim_place", stages::ClaimPlace, nullptr},       // before a body takes memory of its own
    {"claim_memory", stages::ClaimMemory, nullptr},     // in the budgets of the tenant and of the process
    {"read_body", stages::TakeBody, stages::ReadBody},  // whole; a form up to the model's name
    {"read_facts", stages::ReadFacts, nullptr},         // scans the body; finds the model; checks permission
    {"check_content", stages::CheckContent, nullptr},   // whether the caller may ask this model for it
    {"reserve", stages::Reserve, nullptr},              // in all limits or in none
    // From here on the request is in the ledger.
    {"open_record", stages::OpenRecordAtOnce, stages::OpenRecord},
    {"admit", stages::AdmitAtOnce, stages::Admit},  // to a replica at once, or after a wait in the queue
    {"serve", nullptr, stages::Serve},              // sends, retries before the first byte, relays
}};

constexpr std::array<Ending, 3> kEndings = {{
    {"settle", stages::Settle},  // charges what was used, gives back the rest
    {"close", stages::Close},    // writes the ledger's close record
    {"signal", stages::Signal},  // writes metrics, trace, access and routing log; wakes a waiting request
}};

// The request ended as if the client had left; but the client is still connected and gets the error.
StageResult KeyRevoked(Exchange& x) {
  x.client.cancel().Reset(false);
  return x.Fail(api::Make(api::Code::kKeyRevoked,
                          "the API key was revoked while this request ran; the use until then is charged"),
                ledger::EndReason::kKeyRevoked);
}

}  // namespace

std::span<const Stage> Stages() {
  return kStages;
}
std::span<const Ending> Endings() {
  return kEndings;
}

net::Task<void> RunPipeline(Exchange& x) {
  for (const Stage& stage : kStages) {
    StageResult result = stage.decide ? stage.decide(x) : StageResult::kWaits;
    if (result == StageResult::kWaits) result = co_await stage.wait(x);
    if (result != StageResult::kAnswered && x.key_watch.revoked()) result = KeyRevoked(x);
    if (result == StageResult::kAnswered) break;
    if (result == StageResult::kFailed) {
      Charge(x);  // before the error is sent, so that the client's next request finds room at once
      if (x.outcome.error) co_await SendError(x);
      break;
    }
  }
  if (x.delivery.transfer) co_await x.delivery.transfer->Finish();
  for (const Ending& ending : kEndings) ending.run(x);
}

}  // namespace gateway
