// read_facts: scans the body, and finds the model that it names.
#include "gateway/request/stages.h"
#include "gateway/shard/shard.h"

namespace gateway::stages {
namespace {

void TakeForm(Exchange& x) {
  const router::MultipartScanner& form = *x.body.form;
  x.body.facts.model = router::BodyText(std::string(*form.field(router::FormField::kModel)));
  x.body.facts.model_range = form.range(router::FormField::kModel);
  x.body.facts.stream = form.stream();
}

}  // namespace

StageResult ReadFacts(Exchange& x) {
  if (x.body.form) {
    TakeForm(x);
  } else if (const auto error = x.shard.scanner.Scan(x.body.text, x.identity.spec->api, x.body.facts)) {
    x.shard.metrics.cells.bad_bodies.Add();
    return x.Fail(api::FromFacts(*error));
  }
  const std::string_view asked = x.body.facts.model.view();
  const std::optional<ModelId> found = x.runtime->routes().Find(asked);
  // A model that the key may not use is reported as if it did not exist.
  if (!found || !x.identity.principal->MayUse(*found)) {
    x.shard.metrics.cells.permission_failures.Add();
    x.client.SetReusable(x.body.whole);
    return x.Fail(api::ModelNotFound(asked, AllowedModels(x)));
  }
  x.model_id = *found;
  if (std::optional<std::string> why = x.model().WhyPaused()) {
    x.client.SetReusable(x.body.whole);
    return x.Fail(api::Code::kModelPaused, *std::move(why), "model");
  }
  return StageResult::kContinue;
}

}  // namespace gateway::stages
