#include "router/facts/multipart.h"

#include <gtest/gtest.h>

#include "scheduler/rng.h"

namespace router {
namespace {

using State = MultipartScanner::State;

std::string Part(std::string_view disposition, std::string_view value) {
  return "--XY\r\nContent-Disposition: form-data; " + std::string(disposition) + "\r\n\r\n" +
         std::string(value) + "\r\n";
}
const std::string kEnd = "--XY--\r\n";

const std::string kUpload =
    Part("name=\"file\"; filename=\"a;\\\"b\\\".wav\"", "RIFF\r\n--X\r\r\n--XZ\r\n-\n--XY \0 data") +
    Part("name=\"model\"", "whisper-1") + Part("name=stream", "true") +
    Part("name=\"prompt\"", "\r\nhello\r") + Part("name=\"response_format\"", "json") + kEnd;

struct Fed {
  explicit Fed(std::string_view body, scheduler::Rng* splits = nullptr) : scanner("XY") {
    while (!body.empty()) {
      const size_t size =
          splits == nullptr ? body.size() : splits->Uniform(std::min<size_t>(body.size(), 7)) + 1;
      scanner.Feed(body.substr(0, size));
      body.remove_prefix(size);
    }
    scanner.Finish();
  }
  MultipartScanner scanner;
};

TEST(Multipart, FindsTheFieldsBehindAFile) {
  const Fed fed(kUpload);
  const MultipartScanner& s = fed.scanner;
  ASSERT_EQ(s.state(), State::kDone) << s.error().message;
  EXPECT_EQ(s.field(FormField::kModel), "whisper-1");
  EXPECT_EQ(s.range(FormField::kModel).In(kUpload), "whisper-1");
  EXPECT_TRUE(s.stream());
  EXPECT_EQ(s.field(FormField::kResponseFormat), "json");
  EXPECT_EQ(s.field(FormField::kUser), std::nullopt);
}

TEST(Multipart, GivesTheSameAnswerHoweverTheBytesAreSplit) {
  scheduler::Rng rng(4);
  const Fed whole(kUpload);
  for (int round = 0; round < 2'000; ++round) {
    const Fed split(kUpload, &rng);
    ASSERT_EQ(split.scanner.state(), State::kDone) << split.scanner.error().message;
    ASSERT_EQ(split.scanner.field(FormField::kModel), "whisper-1");
    ASSERT_EQ(split.scanner.range(FormField::kModel), whole.scanner.range(FormField::kModel));
    ASSERT_EQ(split.scanner.file_bytes(), whole.scanner.file_bytes());
    ASSERT_EQ(split.scanner.text_bytes(), whole.scanner.text_bytes());
  }
}

TEST(Multipart, CountsEveryByteOfEveryPart) {
  const std::string file = "a\r\n--X\r\r\n-b";
  const Fed fed(Part("name=\"f\"; filename=\"x\"", file) + Part("name=\"model\"", "m\r") + kEnd);
  ASSERT_EQ(fed.scanner.state(), State::kDone);
  EXPECT_EQ(fed.scanner.file_bytes(), file.size());
  EXPECT_EQ(fed.scanner.text_bytes(), 2U);
  EXPECT_EQ(fed.scanner.field(FormField::kModel), "m\r");
}

TEST(Multipart, KnowsTheModelAsSoonAsItsPartEnds) {
  MultipartScanner scanner("XY");
  scanner.Feed(Part("name=\"model\"", "m"));
  EXPECT_EQ(scanner.field(FormField::kModel), std::nullopt);
  scanner.Feed("--XY");
  EXPECT_EQ(scanner.field(FormField::kModel), "m");
  EXPECT_EQ(scanner.state(), State::kMore);
}

TEST(Multipart, RefusesWhatAnotherParserMightReadDifferently) {
  const std::string model = Part("name=\"model\"", "m");
  struct Case {
    std::string body, code;
  };
  const Case cases[] = {
      {"", "invalid_multipart"},
      {kEnd, "missing_model"},
      {model, "invalid_multipart"},
      {model + "--XY-", "invalid_multipart"},
      {"preamble\r\n" + model + kEnd, "invalid_multipart"},
      {"\r\n" + model + kEnd, "invalid_multipart"},
      {model + kEnd + model, "invalid_multipart"},
      {model + "--XY \r\n\r\n\r\n" + kEnd, "invalid_multipart"},
      {model + "--XYZ\r\n\r\n\r\n" + kEnd, "invalid_multipart"},
      {"--XY\nContent-Disposition: form-data; name=\"model\"\n\nm\n--XY--", "invalid_multipart"},
      {model + Part("name=\"model\"", "n") + kEnd, "duplicate_key"},
      {Part("name=\"model\"; filename=\"m\"", "m") + kEnd, "invalid_type"},
      {Part("name=\"model\"", "") + kEnd, "missing_model"},
      {Part("name=\"model\"", std::string(MultipartScanner::kMaxFieldBytes + 1, 'm')) + kEnd, "invalid_type"},
      {Part("name=\"mo\\del\"", "m") + kEnd, "invalid_multipart"},
      {Part("name*=utf-8''model", "m") + kEnd, "invalid_multipart"},
      {Part("name=\"x\"; name=\"model\"", "m") + kEnd, "invalid_multipart"},
      {Part("filename=\"x\"", "m") + kEnd, "invalid_multipart"},
      {Part("name=\"x", "m") + kEnd, "invalid_multipart"},
      {Part("name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"", "m") + kEnd, "invalid_multipart"},
      {Part("name=\"x\"\r\n folded", "m") + kEnd, "invalid_multipart"},
      {Part("name=\"x\"\nContent-Disposition: y", "m") + kEnd, "invalid_multipart"},
      {"--XY\r\nContent-Type: text/plain\r\n\r\nm\r\n" + kEnd, "invalid_multipart"},
      {"--XY\r\n\r\nm\r\n" + kEnd, "invalid_multipart"},
      {"--XY\r\nContent-Disposition: attachment; name=\"model\"\r\n\r\nm\r\n" + kEnd, "invalid_multipart"},
      {"--XY\r\nX: " + std::string(MultipartScanner::kMaxPartHead, 'x'), "invalid_multipart"},
  };
  for (const Case& c : cases) {
    const Fed fed(c.body);
    ASSERT_EQ(fed.scanner.state(), State::kFailed) << c.body;
    EXPECT_EQ(CodeName(fed.scanner.error().code), c.code) << c.body << ": " << fed.scanner.error().message;
  }
}

TEST(Multipart, BoundsTheNumberOfParts) {
  std::string body;
  for (size_t i = 0; i <= MultipartScanner::kMaxParts; ++i) body += Part("name=\"x\"", "");
  EXPECT_EQ(Fed(body).scanner.state(), State::kFailed);
}

TEST(Multipart, ReadsTheBoundaryOfAContentType) {
  struct Case {
    std::string_view type;
    std::optional<std::string> boundary;
  };
  const Case cases[] = {
      {"multipart/form-data; boundary=abc", "abc"},
      {"Multipart/Form-Data; charset=utf-8; Boundary=\"a b:c\"", "a b:c"},
      {"multipart/form-data", std::nullopt},
      {"multipart/form-data; boundary=", std::nullopt},
      {"multipart/form-data; boundary=\"\"", std::nullopt},
      {"multipart/form-data; boundary=a; boundary=b", std::nullopt},
      {"multipart/form-data; boundary=a\"b", std::nullopt},
      {"multipart/form-data; boundary=\"a", std::nullopt},
      {"multipart/form-data; boundary=\"a \"", std::nullopt},
      {"multipart/form-data; boundary=a@b", std::nullopt},
      {"multipart/mixed; boundary=abc", std::nullopt},
      // Python's email package takes these for the boundary.
      {"multipart/form-data; boundary=a; boundary*=utf-8''b", std::nullopt},
      {"multipart/form-data; boundary*=utf-8''b; boundary=a", std::nullopt},
      {"multipart/form-data; boundary=a; boundary*0=b", std::nullopt},
      {"multipart/form-data; boundary=a; start=b", std::nullopt},
      {"application/json", std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(MultipartScanner::BoundaryOf(c.type), c.boundary) << c.type;
  EXPECT_FALSE(MultipartScanner::BoundaryOf("multipart/form-data; boundary=" + std::string(71, 'a')));
}

TEST(Multipart, WritesItsBoundaryWithQuotesWhereItNeedsThem) {
  EXPECT_EQ(MultipartScanner("----x'1").quoted_boundary(), "----x'1");
  EXPECT_EQ(MultipartScanner("a b:c").quoted_boundary(), "\"a b:c\"");
}

}  // namespace
}  // namespace router
