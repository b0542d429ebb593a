// SPDX-License-Identifier: Apache-2.0
#include <ballast/sharding/split_rows.hpp>  // first: proves it is self-contained

#include "../support/counted_allocations.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

#include <ballast/sharding/row_split.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

struct pack {
  std::vector<tokens> documents = {};
  std::size_t ranks = 1;
  std::vector<row_mask> masks = {{}};
  tokens block = 1;
  std::uint32_t permille = 5;

  [[nodiscard]] tokens rows() const { return std::reduce(documents.begin(), documents.end()); }
};

result<row_split> split_of(pack const& each)
{
  return split_rows(each.documents, each.ranks, each.masks, each.block, each.permille);
}

row_mask draw_mask(std::vector<tokens> const& documents, random_source& random)
{
  row_mask mask{.layers = static_cast<std::uint32_t>(1 + random.below(3))};
  switch (random.below(4)) {
    case 0: mask.window = random.between(1, 9); break;
    case 1: mask.prefixes = documents; break;
    case 2:
      for (tokens const rows : documents) { mask.prefixes.push_back(random.between(0, rows)); }
      break;
    default: break;
  }
  return mask;
}

pack draw_pack(std::size_t ranks, tokens most_blocks, tokens block, random_source& random)
{
  pack drawn{.ranks = ranks, .masks = {}, .block = block};
  for (tokens left = random.between(0, most_blocks * block); left > 0;) {
    drawn.documents.push_back(random.between(0, left));
    left -= drawn.documents.back();
  }
  for (std::uint64_t mask = random.below(3) + 1; mask > 0; --mask) {
    drawn.masks.push_back(draw_mask(drawn.documents, random));
  }
  drawn.permille = static_cast<std::uint32_t>(random.below(3) * 50);
  return drawn;
}

// The keys that each row of the pack sees, row by row and key by key.
std::vector<std::set<tokens>> keys_of_rows(pack const& each, row_mask const& mask)
{
  std::vector<std::set<tokens>> keys;
  tokens start = 0;
  for (std::size_t document = 0; document < each.documents.size(); ++document) {
    for (tokens query = 0; query < each.documents[document]; ++query) {
      keys.emplace_back();
      for (tokens key = 0; key < each.documents[document]; ++key) {
        bool const is_near = mask.window == 0 || query - key < mask.window;
        bool const is_prompt = !mask.prefixes.empty() && key < mask.prefixes[document];
        if ((key <= query && is_near) || is_prompt) { keys.back().insert(start + key); }
      }
    }
    start += each.documents[document];
  }
  return keys;
}

struct judged {
  std::vector<std::int64_t> pairs;
  std::vector<std::set<tokens>> missing;  // keys

  [[nodiscard]] tokens moved() const
  {
    tokens keys = 0;
    for (auto const& each : missing) { keys += static_cast<tokens>(each.size()); }
    return keys;
  }
};

template <class OwnerOf>
judged judge(pack const& each, row_mask const& mask, OwnerOf const& owner_of)
{
  judged found{std::vector<std::int64_t>(each.ranks), std::vector<std::set<tokens>>(each.ranks)};
  auto const keys = keys_of_rows(each, mask);
  for (std::size_t row = 0; row < keys.size(); ++row) {
    std::size_t const rank = owner_of(row);
    found.pairs[rank] += static_cast<std::int64_t>(keys[row].size());
    for (tokens const key : keys[row]) {
      if (owner_of(static_cast<std::size_t>(key)) != rank) { found.missing[rank].insert(key); }
    }
  }
  return found;
}

// What calls compute, as the kernel's contract reads: a set of keys for each of a rank's places.
std::map<tokens, std::set<tokens>> computed_by(std::vector<row_split::kernel_call> const& calls)
{
  std::map<tokens, std::set<tokens>> seen;
  for (auto const& call : calls) {
    EXPECT_GT(call.first_query.size(), 0U);
    for (std::size_t piece = 0; piece < call.first_query.size(); ++piece) {
      tokens const queries = call.cu_queries[piece + 1] - call.cu_queries[piece];
      tokens const keys = call.cu_keys[piece + 1] - call.cu_keys[piece];
      EXPECT_GT(queries, 0);
      for (tokens query = 0; query < queries; ++query) {
        tokens const end = call.causal ? keys - (queries - 1 - query) : keys;
        tokens const first = call.window > 0 ? std::max<tokens>(0, end - call.window) : 0;
        for (tokens key = first; key < end; ++key) {
          EXPECT_TRUE(
              seen[call.first_query[piece] + query].insert(call.first_key[piece] + key).second);
        }
      }
    }
  }
  return seen;
}

void expect_true_split(row_split const& split, pack const& each)
{
  auto const block = static_cast<std::size_t>(each.block);
  std::size_t const rows = split.rows.size();
  ASSERT_EQ(rows, static_cast<std::size_t>(split.rows_of_rank) * each.ranks);
  ASSERT_LT(static_cast<tokens>(rows) - each.rows(),
            std::max<tokens>(1, each.block * static_cast<tokens>(each.ranks)));
  auto const place_of = [&](std::size_t row) {
    return static_cast<std::size_t>(split.places[row]);
  };
  for (std::size_t row = 0; row < rows; ++row) {
    ASSERT_EQ(split.rows[place_of(row)], static_cast<tokens>(row));
    ASSERT_EQ(to_index(split.owner[row / block]),
              place_of(row) / static_cast<std::size_t>(split.rows_of_rank));
  }
  for (std::size_t mask = 0; mask < each.masks.size(); ++mask) {
    auto const& part = split.for_mask[mask];
    auto const found = judge(each, each.masks[mask],
                             [&](std::size_t row) { return to_index(split.owner[row / block]); });
    ASSERT_EQ(part.pairs, found.pairs);
    ASSERT_EQ(part.makespan, std::ranges::max(found.pairs));
    ASSERT_LE(part.lower_bound, part.makespan);
    ASSERT_EQ(part.moved, found.moved());
    ASSERT_LE(part.least_moved, part.moved);
    auto const keys = keys_of_rows(each, each.masks[mask]);
    for (std::size_t rank = 0; rank < each.ranks; ++rank) {
      std::set<tokens> got;
      for (std::size_t from = 0; from < each.ranks; ++from) {
        for (tokens const row : split.moved_rows(rank_id(from), rank_id(rank), mask)) {
          ASSERT_EQ(to_index(split.owner[static_cast<std::size_t>(row) / block]), from);
          ASSERT_TRUE(got.insert(row).second);
        }
      }
      ASSERT_EQ(got, found.missing[rank]);
      ASSERT_EQ(part.moved_to[rank], static_cast<tokens>(got.size()));
      std::map<tokens, std::set<tokens>> wanted;
      for (tokens place = 0; place < split.rows_of_rank; ++place) {
        auto const row = static_cast<std::size_t>(
            split.rows[rank * static_cast<std::size_t>(split.rows_of_rank) +
                       static_cast<std::size_t>(place)]);
        if (row < keys.size()) { wanted[place] = keys[row]; }
      }
      ASSERT_EQ(computed_by(split.calls(rank_id(rank), mask)), wanted);
    }
  }
}

TEST(SplitRows, TellsWhatItSplits)  // Ensures (1) of it, (1) to (3) of row_split, kernel_call
{
  random_source random(1);
  for (int trial = 0; trial < trials_of(300, 60); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const each = draw_pack(1 + random.below(6), 30, random.between(1, 5), random);
    auto const split = split_of(each);
    ASSERT_TRUE(split) << split.error().message;
    ASSERT_NO_FATAL_FAILURE(expect_true_split(*split, each));
  }
}

// The worst mask's work above what counts as even, by its mean; then keys by layers.
struct value {
  double uneven;
  std::int64_t keys;
};

// Over all ways to give blocks to ranks, by sets of keys as bits of a word.
class all_splits {
 public:
  explicit all_splits(pack const& each) : pack_(each)
  {
    blocks_ = static_cast<std::size_t>((each.rows() + each.block - 1) / each.block);
    while (blocks_ % each.ranks != 0) { ++blocks_; }
    for (row_mask const& mask : each.masks) {
      auto const keys = keys_of_rows(each, mask);
      auto& own = parts_.emplace_back();
      own.pairs.resize(blocks_);
      own.keys.resize(blocks_);
      own.own.resize(blocks_);
      for (std::size_t row = 0; row < keys.size(); ++row) {
        std::size_t const block = row / static_cast<std::size_t>(each.block);
        own.pairs[block] += static_cast<std::int64_t>(keys[row].size());
        own.own[block] |= std::uint64_t{1} << row;
        for (tokens const key : keys[row]) { own.keys[block] |= std::uint64_t{1} << key; }
      }
    }
  }

  [[nodiscard]] std::size_t blocks() const { return blocks_; }

  template <class Visit>  // visit(pairs of ranks by mask, moved keys by mask)
  void visit(Visit const& visit) const
  {
    std::vector<std::size_t> owner(blocks_);
    for (std::size_t at = 0; at < blocks_; ++at) { owner[at] = at * pack_.ranks / blocks_; }
    do {
      std::vector<std::int64_t> most(parts_.size());
      std::vector<std::int64_t> moved(parts_.size());
      for (std::size_t mask = 0; mask < parts_.size(); ++mask) {
        for (std::size_t rank = 0; rank < pack_.ranks; ++rank) {
          std::int64_t pairs = 0;
          std::uint64_t keys = 0, own = 0;
          for (std::size_t at = 0; at < blocks_; ++at) {
            if (owner[at] != rank) { continue; }
            pairs += parts_[mask].pairs[at];
            keys |= parts_[mask].keys[at];
            own |= parts_[mask].own[at];
          }
          most[mask] = std::max(most[mask], pairs);
          moved[mask] += std::popcount(keys & ~own);
        }
      }
      visit(most, moved);
    } while (std::ranges::next_permutation(owner).found);
  }

  [[nodiscard]] value value_of(std::vector<std::int64_t> const& most,
                               std::vector<std::int64_t> const& moved) const
  {
    value found{0, 0};
    for (std::size_t mask = 0; mask < parts_.size(); ++mask) {
      auto const& pairs = parts_[mask].pairs;
      std::int64_t const total = std::reduce(pairs.begin(), pairs.end());
      auto const ranks = static_cast<std::int64_t>(pack_.ranks);
      std::int64_t const bound = std::max((total + ranks - 1) / ranks, std::ranges::max(pairs));
      std::int64_t const even = std::max(bound, total * (1000 + pack_.permille) / 1000 / ranks);
      double const over = std::max<double>(0, static_cast<double>(most[mask] - even));
      if (over > 0) {
        found.uneven = std::max(found.uneven, std::ceil(over * static_cast<double>(ranks) * 1e6 /
                                                        static_cast<double>(total)));
      }
      found.keys += moved[mask] * pack_.masks[mask].layers;
    }
    return found;
  }

 private:
  struct part {
    std::vector<std::int64_t> pairs;
    std::vector<std::uint64_t> keys, own;
  };
  pack const& pack_;
  std::size_t blocks_ = 0;
  std::vector<part> parts_;
};

TEST(SplitRows, IsTheBestOfAllSplitsOfFewBlocks)  // Ensures (2), (3) and (4) of row_split
{
  random_source random(2);
  for (int trial = 0; trial < trials_of(200, 40); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const ranks = 1 + random.below(3);
    auto const each = draw_pack(ranks, trial % 4 == 0 ? 12 : 9, random.between(1, 4), random);
    all_splits const all(each);
    if (all.blocks() == 0) { continue; }
    auto const split = split_of(each);
    ASSERT_TRUE(split) << split.error().message;
    std::vector<std::int64_t> most, moved, bounds;
    for (auto const& part : split->for_mask) {
      most.push_back(part.makespan);
      moved.push_back(part.moved);
    }
    value const own = all.value_of(most, moved);
    all.visit([&](std::vector<std::int64_t> const& other, std::vector<std::int64_t> const& keys) {
      value const found = all.value_of(other, keys);
      EXPECT_FALSE(found.uneven < own.uneven ||
                   (found.uneven == own.uneven && found.keys < own.keys))
          << found.uneven << ' ' << found.keys << ", ours " << own.uneven << ' ' << own.keys;
      bool is_as_even = true;
      for (std::size_t mask = 0; mask < most.size(); ++mask) {
        EXPECT_GE(other[mask], split->for_mask[mask].lower_bound);
        is_as_even = is_as_even && other[mask] <= most[mask];
      }
      for (std::size_t mask = 0; is_as_even && mask < most.size(); ++mask) {
        EXPECT_GE(keys[mask], split->for_mask[mask].least_moved);
      }
    });
  }
}

// Of 24,310 splits, more than are tried.
TEST(SplitRows, FindsTheBestOfMoreSplitsMostly)
{
  random_source random(6);
  int best = 0;
  constexpr int trials = 20;
  for (int trial = 0; trial < trials; ++trial) {
    auto each = draw_pack(2, 18, 2, random);
    while (each.rows() < 35) { each = draw_pack(2, 18, 2, random); }
    each.permille = 50;
    all_splits const all(each);
    ASSERT_EQ(all.blocks(), 18U);
    auto const split = split_of(each).value();
    std::vector<std::int64_t> most, moved;
    for (auto const& part : split.for_mask) {
      most.push_back(part.makespan);
      moved.push_back(part.moved);
    }
    value const own = all.value_of(most, moved);
    bool is_best = true;
    all.visit([&](std::vector<std::int64_t> const& other, std::vector<std::int64_t> const& keys) {
      value const found = all.value_of(other, keys);
      is_best = is_best && !(found.uneven < own.uneven ||
                             (found.uneven == own.uneven && found.keys < own.keys));
    });
    best += is_best ? 1 : 0;
  }
  EXPECT_GE(best, trials * 3 / 4);
}

TEST(SplitRows, LevelsSeveralMasksOfSmallPacks)
{
  std::vector<row_mask> const masks = {{}, {.window = 3}};
  auto const twelve = split_of({.documents = {4, 8}, .ranks = 2, .masks = masks}).value();
  EXPECT_EQ(twelve.rows_of_rank, 6);
  EXPECT_EQ(twelve.for_mask[0].pairs, (std::vector<std::int64_t>{23, 23}));
  EXPECT_EQ(twelve.for_mask[1].pairs, (std::vector<std::int64_t>{15, 15}));
  auto const sixteen = split_of({.documents = {4, 12}, .ranks = 2}).value();
  EXPECT_EQ(sixteen.for_mask[0].pairs, (std::vector<std::int64_t>{44, 44}));
}

// Documents of one node's training step, several families; blocks of 128 rows.
pack draw_long_pack(std::size_t family, random_source& random)
{
  constexpr tokens rows = 131'072;
  pack drawn{.ranks = 16, .masks = {{}, {.window = 1024}}, .block = 128};
  auto const fill = [&](auto const& draw) {
    for (tokens left = rows; left > 0; left -= drawn.documents.back()) {
      drawn.documents.push_back(std::min(left, draw()));
    }
  };
  switch (family) {
    case 0: fill([&] { return tokens{2048}; }); break;
    case 1: fill([&] { return random.between(16, 200); }); break;
    case 2:
      fill([&] { return drawn.documents.empty() ? 65'536 : random.between(100, 3000); });
      break;
    case 3: fill([&] { return drawn.documents.size() < 3 ? tokens{30'000} : tokens{500}; }); break;
    default:
      fill([&] { return tokens{1} << random.between(6, 13) | random.between(0, 63); });
      break;
  }
  return drawn;
}

TEST(SplitRows, IsEvenForBothMasksOfLongPacks)
{
  random_source random(3);
  for (std::size_t family = 0; family < 5; ++family) {
    SCOPED_TRACE(testing::Message() << "family " << family);
    auto const each = draw_long_pack(family, random);
    auto const split = split_of(each).value();
    for (auto const& part : split.for_mask) {
      auto const total = std::reduce(part.pairs.begin(), part.pairs.end());
      EXPECT_LE(part.makespan * 16, total + total / 199) << part.moved;
      EXPECT_GE(part.moved, part.least_moved);
    }
    // A document of l rows in heads and tails moves 11.25 l keys here; one giant needs more of
    // them.
    tokens const tails = each.rows() * 45 / 4;
    EXPECT_LE(split.for_mask[0].moved, family == 2 ? tails * 55 / 100 : tails * 3 / 10);
  }
}

// Blocks in a row, and heads and tails of the pack, which are best where it is one document.
TEST(SplitRows, IsNoWorseThanPlainSplits)
{
  random_source random(4);
  for (int trial = 0; trial < trials_of(60, 20); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto each = draw_pack(2 + random.below(3), 12, 2, random);
    while (each.rows() < 50) { each = draw_pack(2 + random.below(3), 30, 2, random); }
    std::size_t const blocks_of_rank =
        static_cast<std::size_t>((each.rows() + 2 * static_cast<tokens>(each.ranks) - 1) / 2) /
        each.ranks;
    auto const split = split_of(each).value();
    all_splits const all(each);
    std::vector<std::int64_t> most, moved;
    for (auto const& part : split.for_mask) {
      most.push_back(part.makespan);
      moved.push_back(part.moved);
    }
    value const own = all.value_of(most, moved);
    std::size_t const blocks = all.blocks();
    for (bool const has_tails : {false, true}) {
      if (has_tails && blocks_of_rank % 2 != 0) { continue; }
      std::vector<std::int64_t> of_plain, keys;
      for (row_mask const& mask : each.masks) {
        auto const found = judge(each, mask, [&](std::size_t row) {
          std::size_t const at = row / 2;
          return has_tails ? std::min(at, blocks - 1 - at) / (blocks_of_rank / 2)
                           : at / blocks_of_rank;
        });
        of_plain.push_back(std::ranges::max(found.pairs));
        keys.push_back(found.moved());
      }
      value const plain = all.value_of(of_plain, keys);
      EXPECT_TRUE(own.uneven < plain.uneven ||
                  (own.uneven == plain.uneven && own.keys <= plain.keys));
    }
  }
  pack const one{.documents = {131'072}, .ranks = 16, .block = 128};
  auto const split = split_of(one).value();
  EXPECT_TRUE(split.for_mask[0].proven_optimal());
  EXPECT_LE(split.for_mask[0].moved, 1'474'560);
}

TEST(SplitRows, TakesPacksWithoutRowsAndWithFew)
{
  for (auto const& documents : {std::vector<tokens>{}, {0}, {1}, {0, 3, 0}, {5, 0}}) {
    for (std::size_t const ranks : {1U, 2U, 7U}) {
      for (tokens const block : {1, 4, 1000}) {
        pack const each{documents, ranks, {{}, {.window = 2}}, block};
        auto const split = split_of(each);
        ASSERT_TRUE(split) << split.error().message;
        ASSERT_NO_FATAL_FAILURE(expect_true_split(*split, each));
      }
    }
  }
  EXPECT_EQ(split_of({.documents = {}, .ranks = 3}).value().rows_of_rank, 0);
}

TEST(SplitRows, RefusesWhatIsNoPackOrMask)  // Errors
{
  constexpr auto code = error_code::out_of_range;
  expect_refused(split_of({.documents = {1}, .ranks = 0}), code, 0, "0 ranks");
  expect_refused(split_of({.documents = {1}, .block = 0}), code, 0, "blocks of 0 rows");
  expect_refused(split_of({.documents = {1}, .ranks = 2, .block = tokens{1} << 30}), code, 0);
  expect_refused(split_of({.documents = {1, -1}}), code, 1, "document 1 of -1 rows");
  expect_refused(split_of({.documents = {1 << 30, 1}}), code, 1, "1073741824");
  expect_refused(split_of({.documents = {3}, .masks = {}}), code, 0, "no mask");
  expect_refused(split_of({.documents = {3}, .masks = {{}, {.layers = 0}}}), code, 1, "mask 1");
  expect_refused(split_of({.documents = {3}, .masks = {{.window = -1}}}), code, 0);
  expect_refused(split_of({.documents = {3}, .masks = {{.prefixes = {4}}}}), code, 0);
  expect_refused(split_of({.documents = {3}, .masks = {{.prefixes = {1, 1}}}}), code, 0);
  expect_refused(split_of({.documents = {3}, .masks = {{.window = 1, .prefixes = {1}}}}), code, 0);
}

// What a kernel for sequences of different lengths would take.
struct told_calls {
  tokens queries = 0;
  void operator()(std::span<tokens const> cu_queries, std::span<tokens const>, tokens, bool)
  {
    queries += cu_queries.back();
  }
};

TEST(SplitRows, GivesARankItsRowsAndCalls)
{
  random_source random(7);
  auto const documents = draw_long_pack(4, random).documents;
  rank_id const rank{3};
  told_calls kernel;
  // [rows]
  std::vector<row_mask> const masks = {{.layers = 8}, {.window = 1024, .layers = 24}};
  row_split split;
  workspace memory;  // keep both for the next pack
  or_throw(split_rows_into(split, memory, documents, /*ranks=*/16, masks, /*block=*/128));

  std::span<tokens const> const rows = split.rows_of(rank);  // of the pack, for index_select
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    for (auto const& call : split.calls(rank, mask)) {
      kernel(call.cu_queries, call.cu_keys, call.window, call.causal);
    }
  }
  std::printf("%.1f GB from other ranks, %.2f %% above even\n",
              static_cast<double>(split.moved_bytes(4096)) / 1e9, 100 * split.for_mask[0].gap());
  // [rows]
  EXPECT_EQ(kernel.queries, 2 * 8192);
  EXPECT_TRUE(std::ranges::is_sorted(rows));
}

TEST(SplitRows, AllocatesNothingForAPackAsLargeAsBefore)  // Ensures (4)
{
  random_source random(5);
  auto const each = draw_long_pack(4, random);
  row_split split;
  workspace memory;
  auto const plan = [&] {
    return split_rows_into(split, memory, each.documents, each.ranks, each.masks, each.block);
  };
  ASSERT_TRUE(plan());
  auto const digest = split.digest();
  auto const before = allocations();
  ASSERT_TRUE(plan());
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(split.digest(), digest);
  EXPECT_EQ(split.moved_bytes(3),
            3 * static_cast<std::uint64_t>(split.for_mask[0].moved + split.for_mask[1].moved));
  expect_digest_of_all(split,
                       {[](row_split& s) { s.block = 1; }, [](row_split& s) { s.starts[1] += 1; },
                        [](row_split& s) { s.owner.front() = rank_id(99); }});
}

}  // namespace
