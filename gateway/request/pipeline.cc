#include "gateway/request/pipeline.h"

#include <array>

#include "gateway/request/answer.h"
#include "gateway/request/charge.h"
#include "gateway/request/stages.h"

namespace gateway {
namespace {

constexpr std::array<Stage, 15> kStages = {{
    {"route", stages::Route, nullptr},                // first: the API gives errors their form
    {"authenticate", stages::Authenticate, nullptr},  // before the body: a stranger's is not read
    // These three need no replica.
    {"answer_models", stages::AsksForModels, stages::AnswerModels},
    {"answer_files", stages::AsksForFiles, stages::AnswerFiles},  // and batches, which the gateway keeps
    {"answer_feedback", stages::BringsFeedback, stages::AnswerFeedback},
    {"check_body", stages::CheckBody, nullptr},         // coding and type, of the head alone
    {"claim_place", stages::ClaimPlace, nullptr},       // before a body takes memory of its own
    {"claim_memory", stages::ClaimMemory, nullptr},     // of the tenant and of the process
    {"read_body", stages::TakeBody, stages::ReadBody},  // whole, or of a form up to the model's name
    {"read_facts", stages::ReadFacts, nullptr},         // scans the body; model and permission
    {"check_content", stages::CheckContent, nullptr},   // what the caller may ask of this model
    {"reserve", stages::Reserve, nullptr},              // in all limits at once or in none
    // From here on the ledger knows the request.
    {"open_record", stages::OpenRecordAtOnce, stages::OpenRecord},
    {"admit", stages::AdmitAtOnce, stages::Admit},  // a replica at once, or after a wait in the model's queue
    {"serve", nullptr, stages::Serve},              // send, retry before the first byte, relay
}};

constexpr std::array<Ending, 3> kEndings = {{
    {"settle", stages::Settle},  // charges what was used, gives back the rest
    {"close", stages::Close},    // the ledger's close record
    {"signal", stages::Signal},  // metrics, trace, access log, routing log; wakes the next waiting request
}};

// What ended as if the client had left is told to the client, which is there.
StageResult KeyRevoked(Exchange& x) {
  x.client.cancel().Reset(false);
  return x.Fail(
      api::Make(api::Code::kKeyRevoked,
                "the API key was revoked while this request ran; what was used until then is charged"),
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
      Charge(x);  // before the error goes out: a client that asks again at once finds its room
      if (x.outcome.error) co_await SendError(x);
      break;
    }
  }
  if (x.delivery.transfer) co_await x.delivery.transfer->Finish();
  for (const Ending& ending : kEndings) ending.run(x);
}

}  // namespace gateway
