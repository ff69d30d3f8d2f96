#include "models/load/safetensors_checkpoint.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "models/load/quantization.h"
#include "models/load/report.h"
#include "models/load/safetensors.h"
#include "models/load/tensor_table.h"

namespace tandem {
namespace {

using nlohmann::json;

json parse_object(const std::string& text, const std::string& path) {
  json value = parse_json(text, {.code = ErrorCode::kLoad}, path);
  if (!value.is_object()) fail_load(path, "is not a JSON object");
  return value;
}

// Names a tensor may have in the file: text models inside multimodal ones have
// more in front, and some exports leave "model." out.
std::vector<std::string> spellings(std::string_view name) {
  std::string full(name);
  std::vector<std::string> result = {full, "language_model." + full};
  if (!name.starts_with("model.")) return result;
  std::string rest = full.substr(6);
  result.push_back("model.language_model." + rest);
  result.push_back("language_model." + rest);
  result.push_back(rest);
  return result;
}

// Leftovers of other programs that hold nothing the model needs: buffers that
// can be computed.
bool is_buffer(std::string_view name) {
  for (std::string_view end : {"rotary_emb.inv_freq", "rotary_emb.cos_cached",
                               "rotary_emb.sin_cached", ".masked_bias", ".position_ids"}) {
    if (name.ends_with(end)) return true;
  }
  return name == "rope_freqs.weight";
}

// The parts of a multimodal model that work on images and sound.
bool is_encoder(std::string_view name) {
  name = without_prefixes(name);
  for (std::string_view start : {"vision_tower.", "vision_model.", "visual.", "audio_tower.",
                                 "multi_modal_projector.", "embed_vision.", "embed_audio."}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

// Layers behind the model's own that draft further tokens.
bool is_draft_head(std::string_view name, const json& config) {
  name = without_prefixes(name);
  if (name.starts_with("mtp.")) return true;
  const auto layers = config.find("num_hidden_layers");
  if (!name.starts_with("layers.") || !config.contains("num_nextn_predict_layers") ||
      layers == config.end() || !layers->is_number_integer()) {
    return false;
  }
  int64_t layer = -1;
  std::from_chars(name.data() + 7, name.data() + name.size(), layer);
  return layer >= layers->get<int64_t>();
}

bool flag_of(const json& object, const char* key) {
  auto value = object.find(key);
  return value != object.end() && value->is_boolean() && value->get<bool>();
}

// tokenizer_config.json has one template, or a list of named ones.
std::string template_of(const json& tokenizer_config, const std::string& path) {
  auto found = tokenizer_config.find("chat_template");
  if (found == tokenizer_config.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  std::string first;
  if (found->is_array()) {
    for (const json& item : *found) {
      if (!item.is_object()) break;
      auto name = item.find("name"), text = item.find("template");
      if (text == item.end() || !text->is_string()) break;
      if (name != item.end() && *name == "default") return text->get<std::string>();
      if (first.empty()) first = text->get<std::string>();
    }
  }
  if (first.empty()) fail_load(path, "chat_template is neither a text nor a list of named texts");
  return first;
}

DType scale_type(WeightFormat format) {
  if (format == WeightFormat::kF32) return DType::kF32;
  return format == WeightFormat::kF16 ? DType::kF16 : DType::kBF16;
}

class SafetensorsCheckpoint : public Checkpoint {
 public:
  explicit SafetensorsCheckpoint(SafetensorsFiles files)
      : files_(std::move(files)),
        config_(parse_object(files_.config, files_.path + "/config.json")),
        quantization_(config_, files_.path + "/config.json"),
        tensors_(files_.path) {
    if (!files_.generation_config.empty()) {
      generation_config_ =
          parse_object(files_.generation_config, files_.path + "/generation_config.json");
    }
    choose_template();
    for (const FileBytes& shard : files_.shards) add(shard);
    check_index();
  }

  const std::string& path() const override { return files_.path; }
  const std::string& name() const override { return files_.name; }
  const json& config() const override { return config_; }
  const json& generation_config() const override { return generation_config_; }
  std::string tokenizer_json() const override { return files_.tokenizer; }
  std::string tokenizer_config_json() const override { return files_.tokenizer_config; }
  std::string chat_template() const override { return files_.chat_template; }
  const GgufTokenizer* gguf_tokenizer() const override { return nullptr; }

  bool has(std::string_view name) const override { return !stored_name(name).empty(); }

  StoredMatrix take_matrix(const std::string& base, int64_t rows, int64_t cols) override {
    const FileTensor& weight = take(base + ".weight", shape_text({rows, cols}));
    std::string module = weight.name.substr(0, weight.name.size() - 7);
    if (!tensors_.find(module + ".scales")) return dense(weight, rows, cols);
    auto parameters = quantization_.of(module);
    if (!parameters) {
      fail_load(path(), "tensor " + quote_name(module + ".scales") +
                            " is there, but config.json says that this module is not quantised");
    }
    return affine(weight, module, *parameters, rows, cols);
  }

  std::vector<float> take_vector(const std::string& name, int64_t size) override {
    return as_floats(path(), take(name, shape_text({size})), size);
  }

  std::vector<float> take_optional_vector(const std::string& name, int64_t size) override {
    return has(name) ? take_vector(name, size) : std::vector<float>();
  }

  void expect_all_taken() const override {
    std::vector<std::string> names = tensors_.untaken();
    std::erase_if(names, [&](const std::string& name) { return may_stay(name); });
    refuse_unexpected(path(), names);
  }

  int64_t stored_bytes() const override { return tensors_.stored_bytes(); }

 private:
  void choose_template() {
    if (!files_.chat_template.empty() || files_.tokenizer_config.empty()) return;
    std::string path = files_.path + "/tokenizer_config.json";
    files_.chat_template = template_of(parse_object(files_.tokenizer_config, path), path);
  }

  void add(const FileBytes& shard) {
    for (FileTensor& tensor : parse_safetensors(shard)) {
      std::string name = tensor.name;
      tensors_.add(name, std::move(tensor));
    }
  }

  void check_index() const {
    for (const auto& [tensor, file] : files_.weight_map) {
      if (tensors_.find(tensor)) continue;
      fail_load(path(), "tensor " + quote_name(tensor) + " should be in " + quote_name(file) +
                            " by model.safetensors.index.json, but is not");
    }
  }

  // The name in the file; empty if there is no such tensor.
  std::string stored_name(std::string_view name) const {
    for (std::string& spelling : spellings(name)) {
      if (tensors_.find(spelling)) return std::move(spelling);
    }
    return {};
  }

  const FileTensor& take(const std::string& name, const std::string& expected) {
    std::string stored = stored_name(name);
    if (stored.empty()) tensors_.fail_missing(name, expected);
    return *tensors_.take(stored);
  }

  StoredMatrix dense(const FileTensor& weight, int64_t rows, int64_t cols) const {
    if (!weight.format && weight.type == "U32") {
      fail_load(path(), "tensor " + quote_name(weight.name) +
                            ": is packed (U32), but its .scales tensor is missing");
    }
    return as_matrix(path(), weight, rows, cols);
  }

  // Packed codes [rows, cols * bits / 32] with scales and biases [rows, cols / group].
  StoredMatrix affine(const FileTensor& weight, const std::string& module,
                      const AffineParameters& parameters, int64_t rows, int64_t cols) {
    std::string shown = std::to_string(parameters.bits) + "-bit codes in groups of " +
                        std::to_string(parameters.group_size);
    if (cols % parameters.group_size != 0) {
      fail_load(path(), "tensor " + quote_name(weight.name) + ": " + std::to_string(cols) +
                            " columns cannot be " + shown);
    }
    if (weight.type != "U32") {
      fail_load(path(), "tensor " + quote_name(weight.name) + ": type " + weight.type +
                            ", expected U32 for " + shown);
    }
    check_shape(weight, rows, cols * parameters.bits / 32, shown);
    const FileTensor& scales = take_plane(module + ".scales");
    const FileTensor& biases = take_plane(module + ".biases");
    for (const FileTensor* plane : {&scales, &biases}) {
      check_shape(*plane, rows, cols / parameters.group_size, shown);
      check_same_type(*plane, scales);
    }
    StoredMatrix matrix;
    matrix.name = weight.name;
    matrix.format = WeightFormat::kAffine;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.data = weight.data;
    matrix.bits = parameters.bits;
    matrix.group_size = parameters.group_size;
    matrix.scale_type = scale_type(*scales.format);
    matrix.scales = scales.data;
    matrix.biases = biases.data;
    return matrix;
  }

  const FileTensor& take_plane(const std::string& name) {
    const FileTensor* plane = tensors_.take(name);
    if (!plane) tensors_.fail_missing(name, "one scale and bias a group of a quantised matrix");
    return *plane;
  }

  void check_same_type(const FileTensor& plane, const FileTensor& scales) const {
    if (plane.format && plane.format == scales.format) return;
    fail_load(path(), "tensor " + quote_name(plane.name) + ": type " + plane.type +
                          ", expected F32, F16 or BF16, the same for scales and biases");
  }

  // Leading dimensions count as rows (stacked experts).
  void check_shape(const FileTensor& tensor, int64_t rows, int64_t cols,
                   const std::string& why) const {
    bool fits =
        tensor.shape.size() >= 2 && tensor.shape.back() == cols && tensor.elements() == rows * cols;
    if (fits) return;
    fail_load(path(), "tensor " + quote_name(tensor.name) + ": shape " + shape_text(tensor.shape) +
                          ", expected " + shape_text({rows, cols}) + " for " + why);
  }

  bool may_stay(std::string_view name) const {
    if (is_buffer(name)) return true;
    bool media = config_.contains("vision_config") || config_.contains("audio_config");
    if (media && is_encoder(name)) return true;
    if (is_draft_head(name, config_)) return true;
    return tied() && without_prefixes(name).starts_with("lm_head.");
  }

  bool tied() const {
    auto text = config_.find("text_config");
    bool inner =
        text != config_.end() && text->is_object() && flag_of(*text, "tie_word_embeddings");
    return inner || flag_of(config_, "tie_word_embeddings");
  }

  SafetensorsFiles files_;
  json config_, generation_config_;
  Quantization quantization_;
  TensorTable tensors_;
};

}  // namespace

std::unique_ptr<Checkpoint> make_safetensors_checkpoint(SafetensorsFiles files) {
  return std::make_unique<SafetensorsCheckpoint>(std::move(files));
}

}  // namespace tandem
