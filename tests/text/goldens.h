// Goldens and model files that the tests of this room compare with.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "models/load/gguf.h"
#include "models/load/gguf_config.h"
#include "models/load/mapped_file.h"
#include "text/tokenizer.h"

namespace tandem::test {

using Json = nlohmann::ordered_json;

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json golden(const std::string& name) {
  return Json::parse(read_file(std::filesystem::path(TANDEM_GOLDENS) / name));
}

// Where `make model` puts models.
inline std::filesystem::path models_folder() {
  return std::filesystem::path(std::getenv("HOME")) / ".cache/tandem/models";
}

inline GgufVocab read_gguf_vocab(const std::filesystem::path& path) {
  const FileBytes file = map_file(path.string());
  const GgufFile gguf = parse_gguf(file);
  GgufTokenizer raw = gguf_tokenizer_metadata(gguf.metadata);
  GgufVocab vocab;
  vocab.model = raw.model;
  vocab.pre = raw.pre;
  vocab.architecture = gguf.metadata.text("general.architecture").value_or("");
  vocab.tokens = std::move(raw.tokens);
  vocab.scores = std::move(raw.scores);
  vocab.token_types = std::move(raw.token_types);
  vocab.merges = std::move(raw.merges);
  vocab.bos_id = raw.bos_id;
  vocab.eos_id = raw.eos_id;
  vocab.eot_id = raw.eot_id;
  vocab.unknown_id = raw.unknown_id;
  vocab.padding_id = raw.padding_id;
  vocab.add_bos = raw.add_bos;
  vocab.add_eos = raw.add_eos;
  vocab.add_space_prefix = raw.add_space_prefix;
  vocab.chat_template = raw.chat_template;
  return vocab;
}

}  // namespace tandem::test
