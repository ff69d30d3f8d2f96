"""The layering check finds each kind of broken rule, and passes what the house allows."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import layering  # noqa: E402


def broken(path, text):
    return [what for _, what in layering.check_file(path, text)]


@pytest.mark.parametrize("path, include", [
    ("base/log.cpp", '"base/log.h"'),
    ("nn/linear.cpp", '"backend/backend.h"'),
    ("models/llama.cpp", '"models/load/gguf.h"'),
    ("models/llama.cpp", '"nn/norm.h"'),
    ("text/tokenizer.cpp", '"bridge/tandem_bridge.h"'),
    ("sched/scheduler.h", '"cache/block_pool.h"'),
    ("cache/kv_store.h", '"backend/backend.h"'),
    ("backend/mlx/ops.cpp", '"mlx/mlx.h"'),
    ("backend/cpu/kernels/norm.cpp", '"backend/cpu/pool.h"'),
    ("engine/engine.cpp", '"sampling/sampler.h"'),
    ("api/openai/chat.cpp", '"sched/request.h"'),
    ("cli/serve.cpp", '"backend/cpu/backend.h"'),
    ("api/wire.cpp", "<nlohmann/json.hpp>"),
    ("api/wire.h", "<nlohmann/json_fwd.hpp>"),
    ("sched/plan.h", "<vector>"),
])
def test_the_house_allows(path, include):
    assert broken(path, f"#pragma once\n#include {include}\n") == []


@pytest.mark.parametrize("path, include, says", [
    ("base/log.cpp", '"backend/backend.h"', "base must not include backend"),
    ("nn/linear.cpp", '"cache/ledger.h"', "nn must not include cache"),
    ("nn/linear.cpp", '"backend/cpu/pool.h"', "nn must not include backend/cpu"),
    ("models/load/gguf.cpp", '"models/registry.h"', "models/load must not include models"),
    ("sched/scheduler.cpp", '"cache/kv_store.h"', "sched must not include cache (store)"),
    ("sched/scheduler.cpp", '"backend/backend.h"', "sched must not include backend"),
    ("cache/block_pool.cpp", '"backend/backend.h"', "cache must not include backend"),
    ("cache/block_pool.cpp", '"cache/ssd_tier.h"', "cache must not include cache (store)"),
    ("sampling/sampler.cpp", '"text/grammar.h"', "sampling must not include text"),
    ("api/sse.cpp", '"engine/engine.h"', "api must not include engine"),
    ("engine/engine.cpp", '"api/sse.h"', "engine must not include api"),
    ("server/routes.cpp", '"cli/serve.h"', "server must not include cli"),
    ("nn/linear.cpp", "<mlx/mlx.h>", "only src/backend/mlx"),
    ("backend/cpu/ops.cpp", '"mlx/array.h"', "only src/backend/mlx"),
    ("sampling/x.cpp", '"tandem_bridge.h"', "sampling must not include bridge"),
    ("api/wire.h", "<nlohmann/json.hpp>", "json_fwd"),
])
def test_a_wrong_include_is_named(path, include, says):
    found = broken(path, f"#include {include}\n")
    assert len(found) == 1 and says in found[0]


def test_a_folder_without_a_row_is_refused():
    assert "no room" in broken("utils/strings.h", "")[0]


def test_device_names_stay_inside_the_backends():
    assert broken("backend/mlx/x.cpp", "int cuda_block;\n") == []
    assert "names a device (cuda_block" in broken("engine/step.cpp", "int cuda_block;\n")[0]
    assert "names a device (kMetalQueue" in broken("engine/step.cpp", "int kMetalQueue;\n")[0]
    assert broken("engine/step.cpp", "int metadata, clamx;\n") == []
    assert broken("engine/step.cpp", "// on CUDA this waits\nint block;\n") == []


def test_an_include_in_a_comment_is_no_include():
    text = '// #include "engine/engine.h"\n/*\n#include "nn/x.h"\n*/\n'
    assert broken("base/log.cpp", text) == []


def test_the_line_of_a_finding_counts_from_one():
    text = '/* two\nlines */\n#include "engine/engine.h"\n'
    assert layering.check_file("base/log.cpp", text)[0][0] == 3
