#include "text/parsers/output_parser.h"

#include "text/parsers/harmony_parser.h"
#include "text/parsers/tagged_parser.h"

namespace tandem {

std::unique_ptr<OutputParser> make_output_parser(OutputParserOptions options) {
  if (options.format.tools == ToolFormat::kHarmony)
    return std::make_unique<HarmonyParser>(std::move(options));
  return std::make_unique<TaggedParser>(std::move(options));
}

}  // namespace tandem
