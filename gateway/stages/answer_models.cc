// own_answers: the list of models, of which a key sees what it may use.
#include "gateway/answer.h"
#include "gateway/api/models.h"
#include "gateway/shard.h"
#include "gateway/stages/stages.h"

namespace gateway::stages {
namespace {

api::ModelCard CardOf(std::string_view id, const router::ModelSpec& spec, conf::TimePoint created) {
  return {.id = id, .created = created, .root = spec.name, .parent = spec.base};
}

}  // namespace

net::Task<Verdict> AnswerModels(Exchange& x) {
  if (x.spec->api != router::Api::kModels) co_return Verdict::kGoOn;
  const std::span<const router::Model> models = x.runtime->routes().models();
  const conf::TimePoint created = x.runtime->loaded_at();
  if (!x.path_model_id.empty()) {
    const std::optional<ModelId> found = x.runtime->routes().Find(x.path_model_id);
    if (!found || !x.principal->MayUse(*found)) {
      co_return x.Fail(api::ModelNotFound(x.path_model_id, AllowedModels(x)));
    }
    const api::ModelCard card = CardOf(x.path_model_id, x.runtime->routes().model(*found).spec, created);
    co_await SendOwn(x, 200, "application/json", api::RenderModel(x.protocol(), card));
    co_return Verdict::kAnswered;
  }
  std::vector<api::ModelCard> cards;
  for (const router::Model& model : models) {
    if (!x.principal->MayUse(model.id)) continue;
    cards.push_back(CardOf(model.spec.name, model.spec, created));
    for (const std::string& alias : model.spec.aliases) cards.push_back(CardOf(alias, model.spec, created));
  }
  co_await SendOwn(x, 200, "application/json", api::RenderModels(x.protocol(), cards));
  co_return Verdict::kAnswered;
}

std::vector<std::string_view> AllowedModels(const Exchange& x) {
  std::vector<std::string_view> allowed;
  for (const router::Model& model : x.runtime->routes().models()) {
    if (x.principal->MayUse(model.id)) allowed.push_back(model.spec.name);
  }
  return allowed;
}

}  // namespace gateway::stages
