// answer_models: answers with the list of models that the key may use.
#include "gateway/api/models.h"
#include "gateway/request/answer.h"
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

api::ModelCard CardOf(std::string_view id, const router::ModelSpec& spec, conf::TimePoint created) {
  return {.id = id, .created = created, .root = spec.name, .parent = spec.base};
}

}  // namespace

StageResult AsksForModels(Exchange& x) {
  return x.identity.spec->api == router::Api::kModels ? StageResult::kWaits : StageResult::kContinue;
}

net::Task<StageResult> AnswerModels(Exchange& x) {
  const std::span<const router::Model> models = x.runtime->routes().models();
  const conf::TimePoint created = x.runtime->loaded_at();
  if (!x.identity.path_rest.empty()) {
    const std::optional<ModelId> found = x.runtime->routes().Find(x.identity.path_rest);
    if (!found || !x.identity.principal->MayUse(*found)) {
      co_return x.Fail(api::ModelNotFound(x.identity.path_rest, AllowedModels(x)));
    }
    const api::ModelCard card = CardOf(x.identity.path_rest, x.runtime->routes().model(*found).spec, created);
    co_await SendOwn(x, 200, "application/json", api::RenderModel(x.identity.protocol(), card));
    co_return StageResult::kAnswered;
  }
  std::vector<api::ModelCard> cards;
  for (const router::Model& model : models) {
    if (!x.identity.principal->MayUse(model.id)) continue;
    cards.push_back(CardOf(model.spec.name, model.spec, created));
    for (const std::string& alias : model.spec.aliases) cards.push_back(CardOf(alias, model.spec, created));
  }
  co_await SendOwn(x, 200, "application/json", api::RenderModels(x.identity.protocol(), cards));
  co_return StageResult::kAnswered;
}

std::vector<std::string_view> AllowedModels(const Exchange& x) {
  std::vector<std::string_view> allowed;
  for (const router::Model& model : x.runtime->routes().models()) {
    if (x.identity.principal->MayUse(model.id)) allowed.push_back(model.spec.name);
  }
  return allowed;
}

}  // namespace gateway::stages
