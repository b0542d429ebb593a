// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/sample_batch.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/core.hpp>
#include <ballast/text/column_expression.hpp>
#include <ballast/text/csv.hpp>

namespace {

using namespace ballast;
using ballast_test::allocations;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

static_assert(std::regular<sample_batch>);

static_assert(std::regular<data_code>);

// No chance: every sample has exactly the visual tokens of its code.
constexpr data_code_options exact_options = {
    .smallest_aspect = 1'000'000, .largest_aspect = 1'000'000, .longest_text = 0};

std::vector<tokens> lengths(std::string_view codes, data_code_options const& options)
{
  auto const parsed = parse_data_codes(codes).value();
  std::size_t gpus = 0;
  for (data_code const& code : parsed) { gpus += code.gpus; }
  random_source random(1);
  return draw_batch(parsed, gpus, options, random).value().lengths;
}

TEST(DataCode, IsReadFromText)
{
  EXPECT_THAT(parse_data_codes("g16b4i256f1s0").value(), ElementsAre(data_code{16, 4, 256, 1, 0}));
  EXPECT_THAT(parse_data_codes("g8b2i256f85s1,g1b0i15f0s7").value(),
              ElementsAre(data_code{8, 2, 256, 85, 1}, data_code{1, 0, 15, 0, 7}));
  EXPECT_THAT(parse_data_codes("g4294967295b4294967295i4294967295f4294967295s4294967295").value(),
              ElementsAre(data_code{4294967295, 4294967295, 4294967295, 4294967295, 4294967295}));
}

TEST(DataCode, PointsAtTheByteThatIsWrong)
{
  struct example {
    std::string_view text;
    error_code code;
    std::size_t position;
    std::string_view hint;
  };
  for (auto const& [text, code, position, hint] : std::initializer_list<example>{
           {"", error_code::syntax, 0, "expected 'g' and the number of GPUs"},
           {"4b4i256f1s0", error_code::syntax, 0, "expected 'g'"},
           {"gb4i256f1s0", error_code::syntax, 1, "expected the number of GPUs"},
           {"g-1b4i256f1s0", error_code::syntax, 1, "expected the number of GPUs"},
           {"g0b4i256f1s0", error_code::out_of_range, 1, "a code needs a GPU"},
           {"g1i256", error_code::syntax, 2, "expected 'b' and the number of samples per GPU"},
           {"g1b2f1", error_code::syntax, 4, "expected 'i' and the side of the image in pixels"},
           {"g1b2i3s0", error_code::syntax, 6, "expected 'f' and the number of frames"},
           {"g1b2i3f4", error_code::syntax, 8, "expected 's' and 0, or more for frames compressed"},
           {"g1b2i3f4s0 ", error_code::syntax, 10, "expected ',' or the end"},
           {"g1b2i3f4s0,", error_code::syntax, 11, "expected 'g'"},
           {"g1b4294967296i1f1s0", error_code::out_of_range, 3, "does not fit 32 bits"},
       }) {
    auto const parsed = parse_data_codes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, code) << text;
    EXPECT_EQ(parsed.error().position, position) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("at offset " + std::to_string(position) +
                                                  " of '" + std::string(text) + "': "));
    EXPECT_THAT(parsed.error().message, HasSubstr(std::string(hint)));
  }
}

TEST(DrawBatch, GivesEachSampleTheTokensOfItsCode)  // Ensures (1)
{
  EXPECT_THAT(lengths("g1b1i256f1s0,g1b1i512f1s0,g1b1i1024f1s0,g1b1i2048f1s0", exact_options),
              ElementsAre(256, 1024, 4096, 16384));
  EXPECT_THAT(lengths("g1b1i256f4s0,g1b1i256f4s1,g1b1i256f85s1,g1b1i512f85s1", exact_options),
              ElementsAre(1024, 256, 6400, 25600));
  EXPECT_THAT(lengths("g1b1i16f3s1,g1b1i16f6s1,g1b1i16f7s2,g1b1i16f0s1,g1b1i16f0s0", exact_options),
              ElementsAre(1, 1, 2, 1, 0));
  EXPECT_THAT(lengths("g1b1i15f9s0,g1b1i31f9s0", exact_options), ElementsAre(0, 9));

  data_code_options other = exact_options;
  other.pixels_per_token = 8;
  other.frames_per_token = {4, 1};
  other.smallest_aspect = other.largest_aspect = 1'500'000;
  other.shortest_text = other.longest_text = 10;
  EXPECT_THAT(lengths("g1b1i24f9s1,g1b1i8f1s0", other), ElementsAre(37, 11));  // 9 * 2 * 1.5, 1.5
}

TEST(DrawBatch, RepeatsTheCodesOverTheJob)
{
  auto const codes = parse_data_codes("g2b1i16f1s0,g1b0i16f1s0,g1b2i32f1s0").value();
  random_source random(1);
  sample_batch const batch = draw_batch(codes, 8, exact_options, random).value();
  EXPECT_THAT(batch.lengths, ElementsAre(1, 1, 4, 4, 1, 1, 4, 4));
  EXPECT_THAT(batch.source, ElementsAre(rank_id{0}, rank_id{1}, rank_id{3}, rank_id{3}, rank_id{4},
                                        rank_id{5}, rank_id{7}, rank_id{7}));
}

TEST(DrawBatch, DrawsOneAspectPerGpuAndOneTextPerSample)  // Ensures (2) (3)
{
  auto const codes = ballast::parse_data_codes("g16b4i256f1s0,g4b5i512f1s0").value();
  ballast::random_source random(/*seed=*/42);
  auto const batch = ballast::draw_batch(codes, /*gpus=*/40, {}, random).value();
  EXPECT_EQ(batch.lengths.size(), 2U * (16 * 4 + 4 * 5));
  random_source again(42);
  std::size_t sample = 0;
  for (std::size_t gpu = 0; gpu < 40; ++gpu) {
    bool const low = gpu % 20 < 16;
    auto const visual = (low ? 256 : 1024) * again.between(960'000, 1'040'000) / 1'000'000;
    for (int i = 0; i < (low ? 4 : 5); ++i, ++sample) {
      EXPECT_EQ(batch.lengths[sample], visual + again.between(0, 392));
      EXPECT_EQ(to_index(batch.source[sample]), gpu);
    }
  }
  EXPECT_EQ(sample, batch.lengths.size());
  EXPECT_EQ(ballast::digest{}.add(std::span<tokens const>(batch.lengths)).value(),
            11288888974518303899U);
}

TEST(DrawBatch, ReachesBothBoundsOfTheAspectAndTheText)  // Ensures (2)
{
  data_code_options options = exact_options;
  options.smallest_aspect = 999'999;
  options.largest_aspect = 1'000'001;
  std::map<tokens, int> seen;
  for (tokens const length : lengths("g30000b1i16000f1s0", options)) { ++seen[length]; }
  ASSERT_EQ(seen.size(), 3U);
  // A third of 30000 each; five standard deviations of the binomial distribution.
  double const tolerance = 5 * std::sqrt(30'000 * (1.0 / 3) * (2.0 / 3));
  for (auto const& [length, samples] : seen) {
    EXPECT_GE(length, 999'999);
    EXPECT_LE(length, 1'000'001);
    EXPECT_NEAR(samples, 10'000, tolerance);
  }

  options = exact_options;
  options.longest_text = 392;
  auto const texts = lengths("g1b20000i0f1s0", options);
  EXPECT_EQ(std::ranges::min(texts), 0);
  EXPECT_EQ(std::ranges::max(texts), 392);
}

TEST(DrawBatch, RefusesGpusThatAreNoMultiple)  // Errors
{
  auto const codes = parse_data_codes("g16b4i256f1s0,g16b5i512f1s0").value();
  for (std::size_t const gpus : {0U, 16U, 48U}) {
    random_source random(1);
    sample_batch kept{{3}, {rank_id{0}}};
    error const refused = draw_batch(kept, codes, gpus, {}, random).error();
    EXPECT_EQ(refused.code, error_code::out_of_range);
    EXPECT_EQ(refused.message, "the data codes describe 32 GPUs, and " + std::to_string(gpus) +
                                   " is not a multiple of that; choose a multiple of 32");
    EXPECT_EQ(kept, (sample_batch{{3}, {rank_id{0}}}));
  }
}

TEST(DrawBatch, RefusesSamplesThatCouldBeTooLong)  // Errors
{
  // 46340^2 < 2^31 - 1 < 46341^2
  data_code_options options = exact_options;
  options.pixels_per_token = 1;
  std::vector<data_code> codes = {{1, 1, 1, 1, 0}, {1, 1, 46340, 1, 0}};
  random_source random(1);
  EXPECT_EQ(draw_batch(codes, 2, options, random).value().lengths[1], 46340 * 46340);
  codes[1].pixels = 46341;
  EXPECT_EQ(draw_batch(codes, 2, options, random).error().position, 1U);
  codes[1].pixels = 46340;
  options.longest_text = ballast::longest_sample - 46340 * 46340;
  EXPECT_TRUE(draw_batch(codes, 2, options, random));
  ++options.longest_text;
  EXPECT_EQ(draw_batch(codes, 2, options, random).error().code, error_code::out_of_range);

  codes[1] = {65536, 65536, 16, 1, 0};
  EXPECT_THAT(draw_batch({codes.data() + 1, 1}, 65536, {}, random).error().message,
              HasSubstr("2^32 samples"));

  options.largest_aspect = 4294967295;
  codes[1] = {1, 1, 4294967295, 4294967295, 1};
  EXPECT_THAT(draw_batch(codes, 2, options, random).error().message,
              HasSubstr("data code 1 can give samples of more than 2147483647 tokens"));
}

RC_GTEST_PROP(DataCode, IsReadBackAsWritten, (std::vector<std::array<std::uint32_t, 5>> numbers))
{
  std::string text;
  std::vector<data_code> expected;
  for (auto [g, b, i, f, s] : numbers) {
    g = std::max(g, 1U);
    expected.push_back({g, b, i, f, s});
    text += (text.empty() ? "g" : ",g") + std::to_string(g) + "b" + std::to_string(b) + "i" +
            std::to_string(i) + "f" + std::to_string(f) + "s" + std::to_string(s);
  }
  RC_PRE(!expected.empty());
  RC_ASSERT(parse_data_codes(text).value() == expected);
}

TEST(DrawBatchDeathTest, RejectsWhatNoProgramShouldAsk)  // Expects
{
  random_source random(1);
  std::vector<data_code> const codes = {{}};
  EXPECT_DEATH((void)draw_batch({}, 1, {}, random), "no data codes");
  EXPECT_DEATH((void)draw_batch(codes, 1, {.pixels_per_token = 0}, random),
               "pixels_per_token is 0,");
  EXPECT_DEATH((void)draw_batch(codes, 1, {.frames_per_token = {1, 2}}, random),
               "frames_per_token is 1 / 2,");
  EXPECT_DEATH((void)draw_batch(codes, 1, {.shortest_text = 400}, random), "texts have 400 to ");
}

std::vector<tokens> distinct(std::size_t samples)
{
  std::vector<tokens> trace(samples);
  std::iota(trace.begin(), trace.end(), tokens{0});
  return trace;
}

TEST(BatchSampler, ReadsTheWholeTraceInTheStepsOfEveryPass)  // Ensures (1) (2)
{
  for (std::size_t const samples : {1U, 2U, 7U, 10U}) {
    for (std::size_t const batch : {1U, 3U, 5U, 7U, 10U, 25U}) {
      batch_sampler sampler(distinct(samples), batch, 2, 42);
      for (int pass = 0; pass < 4; ++pass) {
        SCOPED_TRACE(testing::Message() << samples << " by " << batch << ", pass " << pass);
        std::vector<tokens> all;
        while (all.size() + batch < samples) {  // steps behind which something is left
          sample_batch const step = sampler.next();
          ASSERT_EQ(step.lengths.size(), batch);
          all.insert(all.end(), step.lengths.begin(), step.lengths.end());
        }
        sample_batch const last = sampler.next();
        all.insert(all.end(), last.lengths.begin(), last.lengths.end());
        std::ranges::sort(all);
        EXPECT_EQ(all, distinct(samples));
      }
    }
  }
}

TEST(BatchSampler, DealsContiguousBlocksThatDifferByOne)  // Ensures (2)
{
  for (std::size_t gpus = 1; gpus <= 9; ++gpus) {
    for (std::size_t batch = 0; batch <= 20; ++batch) {
      sample_batch const step = batch_sampler(distinct(20), batch, gpus, 1).next();
      ASSERT_EQ(step.source.size(), batch);
      EXPECT_TRUE(std::ranges::is_sorted(step.source));
      std::vector<std::size_t> samples(gpus, 0);
      for (rank_id const gpu : step.source) { ++samples.at(to_index(gpu)); }
      EXPECT_TRUE(std::ranges::is_sorted(samples, std::ranges::greater{}));
      EXPECT_LE(samples.front() - samples.back(), 1U);
    }
  }
  EXPECT_THAT(batch_sampler({5, 5, 5}, 4, 2, 0).next().source,
              ElementsAre(rank_id{0}, rank_id{0}, rank_id{1}));
  EXPECT_THAT(batch_sampler({5}, 0, 2, 0).next().lengths, IsEmpty());
}

TEST(BatchSampler, RepeatsItselfForTheSameSeed)  // Ensures (3)
{
  std::vector<tokens> const trace = {120, 4096, 310, 95, 2048, 770};
  ballast::batch_sampler sampler(trace, /*batch=*/4, /*gpus=*/2, /*seed=*/7);
  ballast::sample_batch step;
  for (std::size_t const samples : {4U, 2U, 4U}) {  // the last step of a pass has what is left
    sampler.next_into(step);                        // replaces what the step before was
    EXPECT_EQ(step.lengths.size(), samples);
  }
  batch_sampler same(trace, 4, 2, 7);
  batch_sampler other(trace, 4, 2, 8);
  EXPECT_NE(same.next(), other.next());
  sample_batch second = same.next();
  EXPECT_EQ(same.next(), step);
  EXPECT_NE(second, step);

  batch_sampler long_run(distinct(1000), 96, 8, 42);
  ballast::digest all;
  for (int i = 0; i < 100; ++i) { all.add(std::span<tokens const>(long_run.next().lengths)); }
  EXPECT_EQ(all.value(), 9358503480497957011U);
}

TEST(BatchSampler, SaysWhichRowEverySampleIs)  // Ensures (4)
{
  std::vector<tokens> const trace = {50, 51, 52, 53, 54};
  batch_sampler sampler(trace, 3, 2, 9);
  for (int i = 0; i < 5; ++i) {
    sample_batch const step = sampler.next();
    ASSERT_EQ(step.rows.size(), i % 2 == 0 ? 3U : 2U);
    for (std::size_t sample = 0; sample < step.rows.size(); ++sample) {
      EXPECT_EQ(step.lengths[sample], trace.at(step.rows[sample]));
    }
  }
}

TEST(BatchSampler, ShufflesEveryPassAnew)
{
  batch_sampler sampler(distinct(100), 100, 1, 3);
  sample_batch const first = sampler.next();
  EXPECT_NE(first.lengths, distinct(100));
  EXPECT_NE(first, sampler.next());
}

TEST(BatchSampler, TakesRowsAsTheyStand)
{
  auto sampler = batch_sampler::in_order({50, 51, 52}, 2, 1);
  EXPECT_EQ(sampler.next().lengths, (std::vector<tokens>{50, 51}));
  EXPECT_EQ(sampler.next().rows, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(sampler.next().rows, (std::vector<std::uint32_t>{0, 1}));
}

TEST(BatchSamplerDeathTest, RejectsAnEmptyTraceAndNoGpu)  // Expects
{
  EXPECT_DEATH(batch_sampler({}, 1, 1, 0), "the trace has no samples");
  EXPECT_DEATH(batch_sampler({1}, 1, 0, 0), "over 0 GPUs,");
}

TEST(SteadyState, ReadsCsvRowsWithoutAllocating)
{
  std::string csv = "a,b,label\n\"1\",2,\"he said \"\"a longer field than any other\"\"\"\n";
  for (int row = 0; row < 100; ++row) { csv += "\"3\",4,\"with \"\"quotes\"\" inside\"\n5,6,\n"; }
  ballast::csv_reader reader(csv);
  auto const expression =
      ballast::parse_column_expression("2*a+(b-1)", reader.next().value().fields).value();
  EXPECT_EQ(expression.evaluate(reader.next().value()).value(), 3);

  std::size_t const before = allocations();
  for (int row = 0; row < 200; ++row) {
    ASSERT_EQ(expression.evaluate(reader.next().value()).value(), row % 2 == 0 ? 9 : 15);
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(reader.next().value().fields.empty());
}

TEST(SteadyState, SamplesBatchesWithoutAllocating)
{
  ballast::batch_sampler sampler(std::vector<ballast::tokens>(100, 7), 64, 8, 42);
  ballast::sample_batch step;
  sampler.next_into(step);
  std::size_t const before = allocations();
  for (int i = 0; i < 50; ++i) { sampler.next_into(step); }
  EXPECT_EQ(allocations(), before);
}

TEST(SteadyState, DrawsDataCodesWithoutAllocating)
{
  auto const codes = ballast::parse_data_codes("g4b4i256f1s0,g4b1i512f85s1").value();
  ballast::random_source random(42);
  ballast::sample_batch step;
  ASSERT_TRUE(ballast::draw_batch(step, codes, 32, {}, random));
  std::size_t const before = allocations();
  for (int i = 0; i < 50; ++i) { ASSERT_TRUE(ballast::draw_batch(step, codes, 32, {}, random)); }
  EXPECT_EQ(allocations(), before);
}

}  // namespace
