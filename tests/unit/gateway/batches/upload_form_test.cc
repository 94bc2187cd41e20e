#include "gateway/batches/upload_form.h"

#include <gtest/gtest.h>

namespace gateway::batches {
namespace {

constexpr std::string_view kHead = "Content-Disposition: form-data; name=";

std::string Part(std::string_view about, std::string_view value) {
  return "--b\r\n" + std::string(kHead) + std::string(about) + "\r\n\r\n" + std::string(value) + "\r\n";
}
const std::string kPurpose = Part("\"purpose\"", "batch");
const std::string kFile = Part("\"file\"; filename=\"in \\\"x\\\".jsonl\"", "{}\r\n--x\r\n--");
const std::string kEnd = "--b--\r\n";

// The file, with the form split in pieces of that size; the error behind "!".
std::string Read(const std::string& text, size_t piece, UploadForm& form) {
  std::string file;
  for (size_t at = 0; at < text.size(); at += piece) {
    if (!form.Feed(std::string_view(text).substr(at, piece), file)) return "!" + form.error();
  }
  return form.Finish() ? file : "!" + form.error();
}

TEST(UploadForm, TheFileComesThroughWholeHoweverTheFormIsSplit) {
  for (const std::string& text : {kPurpose + kFile + kEnd, kFile + kPurpose + kEnd}) {
    for (size_t piece = 1; piece <= text.size(); ++piece) {
      UploadForm form("b");
      ASSERT_EQ(Read(text, piece, form), "{}\r\n--x\r\n--") << piece;
      EXPECT_EQ(form.purpose(), Purpose::kBatch);
      EXPECT_EQ(form.filename(), "in \"x\".jsonl");
      EXPECT_FALSE(form.age());
    }
  }
}

TEST(UploadForm, AnAgeIsTaken) {
  UploadForm form("b");
  Read(kPurpose + Part("\"expires_after[anchor]\"", "created_at") +
           Part("\"expires_after[seconds]\"", "3600") + kFile + kEnd,
       7, form);
  EXPECT_EQ(form.error(), "");
  EXPECT_EQ(form.age(), conf::Duration(std::chrono::hours(1)));
}

TEST(UploadForm, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& text) {
    UploadForm form("b");
    const std::string read = Read(text, 5, form);
    return read.starts_with('!') ? form.param() + read : "none";
  };
  EXPECT_EQ(error(kPurpose + kEnd), "file!file must be given");
  EXPECT_EQ(error(kFile + kEnd), "purpose!purpose must be given");
  EXPECT_EQ(error(kPurpose + kPurpose + kFile + kEnd), "purpose!purpose is given twice");
  EXPECT_EQ(error(Part("\"purpose\"", "batch_output") + kFile + kEnd),
            "purpose!purpose must be batch or user_data");
  EXPECT_EQ(error(kPurpose + kFile), "!the form ends before its last boundary");
  EXPECT_EQ(error("x" + kPurpose), "!the form does not begin with its boundary");
  EXPECT_EQ(error(kPurpose + Part("\"expires_after[seconds]\"", "3600") + kFile + kEnd).substr(0, 13),
            "expires_after");
}

}  // namespace
}  // namespace gateway::batches
