// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <ballast/core.hpp>
#include <ballast/sharding/split_rows.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

#include <cstdlib>
#include <numeric>

namespace split_rows_bench {

using ballast::tokens;

constexpr tokens window = 1024;
constexpr std::size_t draws = 4;

// Rows of each document; `draws` packs of a file of BALLAST_DATA, 64 documents each in proportion
// to those that were drawn, or one of a family.
std::vector<std::vector<tokens>> packs_of(std::string const& name, tokens rows)
{
  std::vector<std::vector<tokens>> packs;
  auto const fill = [&](auto const& draw) {
    auto& pack = packs.emplace_back();
    for (tokens left = rows; left > 0; left -= pack.back()) {
      pack.push_back(std::min(left, draw(pack.size())));
    }
  };
  if (name == "equal") {
    fill([](std::size_t) { return tokens{2048}; });
  }
  if (name == "tiny") {
    fill([](std::size_t) { return tokens{64}; });
  }
  if (name == "one_giant") {
    fill([rows](std::size_t at) { return at == 0 ? rows / 2 : tokens{1024}; });
  }
  if (name == "two_kinds") {
    fill([rows](std::size_t at) { return at < 3 ? rows * 23 / 100 : tokens{500}; });
  }
  char const* const folder = std::getenv("BALLAST_DATA");
  if (!packs.empty() || folder == nullptr) { return packs; }
  std::string const column = name == "nextqa_video"       ? "text_tokens+video_tokens_qwen2vl"
                             : name == "interleaved_docs" ? "text_tokens"
                                                          : "prompt_tokens+response_tokens";
  auto const path = std::string(folder) + "/" + name + ".csv";
  auto const all = ballast::read_file(path, ballast::read_length_trace, column).value();
  ballast::random_source random(1);
  for (std::size_t draw = 0; draw < draws; ++draw) {
    auto& pack = packs.emplace_back();
    while (pack.size() < static_cast<std::size_t>(rows / window / 2)) {
      pack.push_back(all[random.below(all.size())]);
    }
    tokens const sum = std::reduce(pack.begin(), pack.end());
    for (tokens& length : pack) { length = length * rows / sum; }
    *std::max_element(pack.begin(), pack.end()) += rows - std::reduce(pack.begin(), pack.end());
  }
  return packs;
}

enum class strategy { ours, in_a_row, tails_of_pack, tails_of_documents };

struct outcome {
  double uneven = 0;  // of the worse mask
  double keys = 0;    // causal
};

// Row by row: what ranks do whose rows `owner_of` names, in row, in its document, and its rows.
template <class OwnerOf>
outcome outcome_of(std::vector<tokens> const& pack, std::size_t ranks, OwnerOf const& owner_of)
{
  std::vector<double> causal(ranks), near(ranks);
  std::vector<tokens> seen(ranks), held(ranks);  // keys seen below
  outcome found;
  tokens start = 0;
  for (tokens const length : pack) {
    for (tokens row = 0; row < length; ++row) {
      std::size_t const rank = owner_of(start + row, row, length);
      causal[rank] += static_cast<double>(row + 1);
      near[rank] += static_cast<double>(std::min(row + 1, window));
      found.keys += static_cast<double>(start + row - std::max(start, seen[rank]));
      seen[rank] = start + row + 1;
    }
    start += length;
  }
  for (auto const& pairs : {causal, near}) {
    double const mean = std::reduce(pairs.begin(), pairs.end()) / static_cast<double>(ranks);
    found.uneven = std::max(found.uneven, *std::max_element(pairs.begin(), pairs.end()) / mean - 1);
  }
  return found;
}

void split_rows(benchmark::State& state, std::string const& name, strategy how)
{
  auto const ranks = static_cast<std::size_t>(state.range(0));
  tokens const rows = state.range(1);
  auto const packs = packs_of(name, rows);
  if (packs.empty()) { return state.SkipWithError("BALLAST_DATA names no folder of traces"); }
  std::vector<ballast::row_mask> const masks = {{}, {.window = window}};
  ballast::row_split split;
  ballast::workspace memory;
  std::size_t next = 0;
  for (auto _ : state) {
    auto const done = split_rows_into(split, memory, packs[next++ % packs.size()], ranks, masks);
    if (!done) { return state.SkipWithError(done.error().message.c_str()); }
  }
  outcome worst, mean;
  double bound = 0;
  double const tails = static_cast<double>(rows) * (3 * static_cast<double>(ranks) / 4 - 0.75);
  for (auto const& pack : packs) {
    (void)split_rows_into(split, memory, pack, ranks, masks);
    auto const all = static_cast<tokens>(ranks);
    auto const found = outcome_of(pack, ranks, [&](tokens at, tokens row, tokens length) {
      bool const is_whole = how == strategy::tails_of_documents;
      tokens const part = (is_whole ? row : at) * 2 * all / (is_whole ? length : rows);
      tokens const rank = how == strategy::in_a_row ? part / 2 : std::min(part, 2 * all - 1 - part);
      return how == strategy::ours
                 ? to_index(split.owner[static_cast<std::size_t>(at / split.block)])
                 : static_cast<std::size_t>(rank);
    });
    worst.uneven = std::max(worst.uneven, found.uneven);
    worst.keys = std::max(worst.keys, found.keys);
    mean.keys += found.keys / static_cast<double>(packs.size());
    bound += static_cast<double>(split.for_mask[0].least_moved) / static_cast<double>(packs.size());
  }
  state.counters["uneven_%"] = 100 * worst.uneven;
  state.counters["keys_by_tails"] = mean.keys / tails;
  state.counters["worst_keys_by_tails"] = worst.keys / tails;
  state.counters["bound_by_tails"] = bound / tails;
}

bool const added_splits = [] {
  constexpr std::array kinds = {"mooncake_conversation",
                                "servegen_reason_sampled",
                                "interleaved_docs",
                                "nextqa_video",
                                "equal",
                                "tiny",
                                "one_giant",
                                "two_kinds"};
  constexpr std::array<std::pair<char const*, strategy>, 4> strategies = {
      {{"split_rows/", strategy::ours},
       {"split_rows/blocks_in_a_row/", strategy::in_a_row},
       {"split_rows/tails_of_the_pack/", strategy::tails_of_pack},
       {"split_rows/tails_of_documents/", strategy::tails_of_documents}}};
  for (auto const& [name, how] : strategies) {
    for (char const* const kind : kinds) {
      auto* const row = benchmark::RegisterBenchmark(
          (name + std::string(kind)).c_str(),
          [kind, how](benchmark::State& state) { split_rows(state, kind, how); });
      row->ArgNames({"ranks", "rows"})->Args({16, 131'072})->Unit(benchmark::kMillisecond);
      if (how == strategy::ours) {
        row->Args({64, 1'048'576});
      } else {
        row->Iterations(1);  // its time is that of our plan, whose bound it is told beside
      }
    }
  }
  return true;
}();

}  // namespace split_rows_bench
