#include "gateway/request/serve/translator.h"

#include "gateway/api/anthropic.h"
#include "gateway/api/responses.h"

namespace gateway {
namespace {

template <class Stream>
class Adapter final : public StreamTranslator {
 public:
  template <class Identity>
  explicit Adapter(Identity identity) : stream_(std::move(identity)) {}
  void OnData(std::string_view chunk, std::string& out) override { stream_.OnData(chunk, out); }
  void OnDone(std::string& out, const api::Usage& counted) override { stream_.OnDone(out, counted); }
  void OnError(const api::ApiError& error, std::string& out) override { stream_.OnError(error, out); }
  api::StreamState state() const override { return stream_.state(); }

 private:
  Stream stream_;
};

api::MessageIdentity MessageOf(const OutgoingRequest& request, const Upstream& upstream) {
  api::MessageIdentity identity;
  identity.id = "msg_" + std::string(request.identity.id.substr(4));
  identity.model = request.body.facts.model.view();
  identity.request_id = request.identity.id;
  identity.show_thinking = upstream.chat().show_thinking;
  identity.input_tokens_estimate = static_cast<uint64_t>(request.body.prompt_tokens);
  return identity;
}

api::ResponseIdentity ResponseOf(const OutgoingRequest& request, conf::TimePoint started,
                                 const Upstream& upstream) {
  api::ResponseIdentity identity;
  identity.id = "resp_" + std::string(request.identity.id.substr(4));
  identity.model = request.body.facts.model.view();
  identity.request_id = request.identity.id;
  identity.echo = upstream.chat().echo;
  identity.tools = upstream.chat().tools;
  identity.created_at = conf::ToUnixMicros(started) / 1'000'000;
  return identity;
}

}  // namespace

std::unique_ptr<StreamTranslator> MakeStreamTranslator(const OutgoingRequest& request,
                                                       conf::TimePoint started, const Upstream& upstream) {
  if (upstream.carry() == Carry::kMessagesAsChat) {
    return std::make_unique<Adapter<api::MessagesStream>>(MessageOf(request, upstream));
  }
  return std::make_unique<Adapter<api::ResponsesStream>>(ResponseOf(request, started, upstream));
}

api::Translated<std::string> TranslateAnswer(const OutgoingRequest& request, conf::TimePoint started,
                                             const Upstream& upstream, std::string_view chat,
                                             const api::Usage& counted) {
  switch (upstream.carry()) {
    case Carry::kMessagesAsChat:
      return api::MessageFromChat(chat, MessageOf(request, upstream), counted);
    case Carry::kResponsesAsChat:
      return api::ResponseFromChat(chat, ResponseOf(request, started, upstream), counted);
    case Carry::kCountAsTokenize:
      if (const std::optional<uint64_t> count = api::CountFromTokenize(chat))
        return api::RenderTokenCount(*count, request.identity.protocol());
      return api::Make(api::Code::kUpstreamError,
                       "the replica's answer does not contain the number of tokens");
    case Carry::kCountHere:
    case Carry::kAsIs:
      break;
  }
  return std::string(chat);
}

}  // namespace gateway
