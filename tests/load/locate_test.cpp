#include "models/load/locate.h"

#include <doctest/doctest.h>

#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::string locate_error(const std::string& model) {
  return error_of([&] { locate_model(model); });
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A hub cache in a folder of its own, nothing else of the environment.
struct HubCache {
  TemporaryFolder folder;
  Environment cache{"HF_HUB_CACHE", folder.path().string()};
  std::string repository = "models--org--name";

  void snapshot(const std::string& commit, const std::string& file, std::string_view content) {
    folder.write(repository + "/snapshots/" + commit + "/" + file, content);
  }
  void ref(const std::string& name, const std::string& commit) {
    folder.write(repository + "/refs/" + name, commit);
  }
};

}  // namespace

TEST_CASE("a GGUF file and a directory of safetensors are found by path") {
  TemporaryFolder folder;
  ModelPlace file = locate_model(folder.write("a/Tiny.Q4_1.gguf", "GGUF...."));
  CHECK(file.name == "Tiny.Q4_1");
  CHECK_FALSE(file.is_directory);
  folder.write("tiny-model/config.json", "{}");
  folder.write("tiny-model/model.safetensors", "x");
  ModelPlace directory = locate_model((folder.path() / "tiny-model/").string());
  CHECK(directory.name == "tiny-model");
  CHECK(directory.is_directory);
}

TEST_CASE("a directory with one GGUF file is that file, several are an error that lists them") {
  TemporaryFolder folder;
  folder.write("one.gguf", "GGUF....");
  CHECK(locate_model(folder.path().string()).path == (folder.path() / "one.gguf").string());
  folder.write("two.gguf", "GGUF....");
  CHECK(has(locate_error(folder.path().string()),
            "holds 2 GGUF files, give the path of one: 'one.gguf', 'two.gguf'"));
}

TEST_CASE("a directory without a model says what it holds") {
  TemporaryFolder folder;
  CHECK(has(locate_error(folder.path().string()), "is no model directory"));
  CHECK(has(locate_error(folder.path().string()), "it is empty"));
  folder.write("pytorch_model.bin", "x");
  CHECK(has(locate_error(folder.path().string()), "found 'pytorch_model.bin'"));
}

TEST_CASE("a file that is no model is named for what it looks like") {
  TemporaryFolder folder;
  CHECK(has(locate_error(folder.write("m.txt", "hello\n")), "is not a model but text; expected"));
  CHECK(has(locate_error(folder.write("m.zip", "PK\x03\x04...")), "but a ZIP archive"));
  CHECK(has(locate_error(folder.write("m.bin", std::string("\0\1\2", 3))),
            "data of an unknown kind"));
  CHECK(
      has(locate_error(folder.write("m.gguf", SafetensorsBuilder().floats("a", {1}, {1}).bytes())),
          "but a safetensors file; give its directory"));
  CHECK(has(locate_error(folder.write("m.html", "<!DOCTYPE html>")), "an HTML page"));
  CHECK(has(locate_error(folder.write("none.gguf", "")), "is empty"));
}

TEST_CASE("a hub id is found in the cache by branch, commit or pull request") {
  HubCache hub;
  hub.snapshot("abc123", "config.json", "{}");
  hub.snapshot("abc123", "model.safetensors", "x");
  hub.snapshot("def456", "m.gguf", "GGUF....");
  hub.ref("main", "abc123\n");
  hub.ref("refs/pr/1", "def456");
  ModelPlace main = locate_model("org/name");
  CHECK(main.name == "org/name");
  CHECK(main.path.ends_with("models--org--name/snapshots/abc123"));
  CHECK(main.is_directory);
  CHECK(locate_model("org/name@def456").path.ends_with("snapshots/def456/m.gguf"));
  CHECK(locate_model("org/name@refs/pr/1").path.ends_with("snapshots/def456/m.gguf"));
  CHECK(has(locate_error("org/name@v2"), "has no revision 'v2'; it has 'abc123', 'def456'"));
}

TEST_CASE("a hub id whose files are gone or whose ref is odd is an error that says so") {
  HubCache hub;
  hub.ref("main", "abc123");
  CHECK(has(locate_error("org/name"), "is missing, though refs/main names it"));
  hub.ref("main", "../../../etc");
  CHECK(has(locate_error("org/name"), "holds '../../../etc', expected a commit"));
}

TEST_CASE("HF_HUB_CACHE wins over HF_HOME, which wins over the user's cache") {
  TemporaryFolder folder;
  Environment cache("HF_HUB_CACHE", {}), xdg("XDG_CACHE_HOME", {});
  Environment home("HF_HOME", (folder.path() / "hf").string());
  Environment user("HOME", folder.path().string());
  CHECK(has(locate_error("org/name"), "/hf/hub/models--org--name"));
  Environment none("HF_HOME", {});
  CHECK(has(locate_error("org/name"), "/.cache/huggingface/hub/models--org--name"));
  Environment hub("HF_HUB_CACHE", (folder.path() / "elsewhere").string());
  CHECK(has(locate_error("org/name"), "/elsewhere/models--org--name; `hf download org/name`"));
}

TEST_CASE("what is neither a path nor a hub id says what would be right") {
  for (const char* model : {"nothing", "/no/such/file.gguf", "../x/y", "a/b/c", "org/na me",
                            "org/name@../x", "-x/y", "org/name@"}) {
    CHECK(has(locate_error(model), "expected a .gguf file, a directory of safetensors, org/name"));
  }
  CHECK(has(locate_error(std::string(100000, 'a') + "/b"), "is no hub id"));
  CHECK(has(locate_error(""), "the model is empty"));
}

TEST_CASE("a missing default model says where it would be and how to get it") {
  TemporaryFolder folder;
  Environment cache("XDG_CACHE_HOME", folder.path().string());
  std::string message = locate_error("default");
  CHECK(has(message, (folder.path() / "tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf").string()));
  CHECK(has(message, "run `make model`, or give a MODEL"));
}

TEST_CASE("a sharded directory opens by its index and by file names, and must be complete") {
  TemporaryFolder folder;
  auto shard = [](const char* name) {
    return SafetensorsBuilder().floats(name, {1, 1}, {1}).bytes();
  };
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write("generation_config.json", R"({"eos_token_id": 5})");
  folder.write("tokenizer.json", "{\"version\": \"1.0\"}");
  folder.write("tokenizer_config.json", R"({"chat_template": "own"})");
  folder.write("chat_template.jinja", "file");
  folder.write("model-00001-of-00002.safetensors", shard("a.weight"));
  std::string path = folder.path().string();
  CHECK(has(error_of([&] { open_checkpoint(path); }), "is one of 2 files, but 1 are there"));
  folder.write("model-00002-of-00002.safetensors", shard("b.weight"));
  CHECK(open_checkpoint(path)->has("b.weight"));

  std::string index = "model.safetensors.index.json";
  folder.write(index, R"({"weight_map": {"a.weight": "model-00001-of-00002.safetensors",
                                         "b.weight": "model-00002-of-00002.safetensors"}})");
  auto model = open_checkpoint(path);
  CHECK(model->config()["model_type"] == "llama");
  CHECK(model->generation_config()["eos_token_id"] == 5);
  CHECK(model->tokenizer_json() == "{\"version\": \"1.0\"}");
  CHECK(model->chat_template() == "file");
  CHECK(model->gguf_tokenizer() == nullptr);
  model->take_matrix("a", 1, 1);
  model->take_matrix("b", 1, 1);
  CHECK_NOTHROW(model->expect_all_taken());

  folder.write(index, R"({"weight_map": {"c.weight": "model-00001-of-00002.safetensors"}})");
  CHECK(has(error_of([&] { open_checkpoint(path); }),
            "tensor 'c.weight' should be in 'model-00001-of-00002.safetensors'"));
  folder.write(index, R"({"weight_map": {"c.weight": "model-00003-of-00003.safetensors"}})");
  CHECK(has(error_of([&] { open_checkpoint(path); }),
            "which is missing; is the download incomplete"));
}

TEST_CASE("a broken config.json is an error that names the file and the place") {
  TemporaryFolder folder;
  folder.write("model.safetensors", SafetensorsBuilder().bytes());
  std::string path = folder.path().string();
  CHECK(has(error_of([&] { open_checkpoint(path); }), "but no config.json"));
  folder.write("config.json", "{\n \"model_type\": ");
  CHECK(has(error_of([&] { open_checkpoint(path); }), "config.json is not valid JSON at line 2"));
  folder.write("config.json", "[]");
  CHECK(has(error_of([&] { open_checkpoint(path); }), "config.json: is not a JSON object"));
  folder.write("config.json", "{}");
  CHECK(error_of([&] { open_checkpoint(path); }) == "");
}
