// The balancers of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal Data with Batch
// Post-Balancing to Accelerate Multimodal Large Language Model Training", arXiv 2503.23830, 2025,
// on lengths of real images and speech: what they gain, and what they leave to gain.

#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../support/test.hpp"

#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/workload/length_trace.hpp>

namespace {

using ballast::quadratic_cost;
using ballast::tokens;

constexpr std::size_t ranks = 64;
constexpr std::size_t samples = 2048;

class OrchmllmBalancing : public testing::TestWithParam<std::uint64_t> {
 protected:
  // A step of the trace: rows drawn without replacement.
  [[nodiscard]] static std::vector<tokens> step_of(std::string const& file,
                                                   std::string const& column)
  {
    auto const all = ballast::read_file(std::string(std::getenv("BALLAST_DATA")) + "/" + file,
                                        ballast::read_length_trace, column);
    auto lengths = all.value();
    ballast::random_source random(GetParam());
    random.shuffle(std::span(lengths));
    lengths.resize(samples);
    return lengths;
  }

  template <class Policy>
  [[nodiscard]] static ballast::partition_plan plan(std::vector<tokens> const& lengths,
                                                    Policy const& policy,
                                                    quadratic_cost const& cost)
  {
    return ballast::partition(lengths, ballast::one_gpu_bags(ranks), cost, {}, policy).value();
  }

  void SetUp() override
  {
    if (std::getenv("BALLAST_DATA") == nullptr) {
      GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces";
    }
  }
};

TEST_P(OrchmllmBalancing, PadsImagesOptimally)
{
  auto const images = step_of("servegen_mm_image_sampled.csv", "image_tokens_sum");
  auto const padded = plan(images, ballast::padded_batches{}, quadratic_cost{.linear = 1});
  EXPECT_TRUE(padded.proven_optimal());
  auto const without =
      plan(images, ballast::longest_processing_time{}, quadratic_cost{.linear = 1});
  EXPECT_LT(padded.makespan.value(), 1.15 * without.makespan.value());  // padding can be that cheap
}

TEST_P(OrchmllmBalancing, PadsSpeechShorterThanPublished)
{
  auto const speech = step_of("librispeech_mix_audio.csv", "audio_tokens_25hz");
  quadratic_cost const cost{.linear = 6 * 1280, .quadratic = 1};  // 24 l d^2 + 4 l^2 d, d = 1280
  auto const published = plan(speech, ballast::conv_transformer_batches{}, cost);
  auto const best = plan(speech, ballast::attention_padded_batches{}, cost);
  EXPECT_LT(best.gap(), 0.01);
  EXPECT_GT(published.makespan.value(), 1.1 * best.makespan.value());
}

TEST_P(OrchmllmBalancing, PacksTextAndImagesShorterByTheirCost)
{
  auto const all = step_of("servegen_mm_image_sampled.csv", "text_tokens + image_tokens_sum");
  quadratic_cost const cost{.linear = 6 * 4096, .quadratic = 1};
  auto const published = plan(all, baselines::quadratic_with_tolerance{}, cost);
  auto const direct = plan(all, ballast::longest_processing_time{}, cost);
  auto const as_read = plan(all, ballast::round_robin{}, cost);
  EXPECT_LT(published.makespan, as_read.makespan);
  EXPECT_GT(published.gap(), 0.02);
  EXPECT_LT(direct.gap(), 0.005);
}

INSTANTIATE_TEST_SUITE_P(Steps, OrchmllmBalancing, testing::Values(1, 2, 3, 4));

}  // namespace
