// SPDX-License-Identifier: Apache-2.0
// As it is, this compiles. With REJECTED, each line "// EXPECT: message" begins a case, which ends before
// the next one or #endif, and of which the compiler says the message within the first three lines.
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/pipeline/module_times.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace ballast::literals;
using ballast::bag_id;
using ballast::rank_id;
using ballast::sample_id;
using ballast::tokens;

// ---- Identifiers and rows ------------------------------------------------------------------------

using owners_of_samples = ballast::id_vector<sample_id, bag_id>;

bag_id owner_of(owners_of_samples const& owners, sample_id at)
{
  return owners[at];
}
rank_id next(rank_id rank)
{
  return ballast::to_id<rank_id>(ballast::to_index(rank) + 1);
}
bool same_place(rank_id rank, rank_id other)
{
  return rank == other;
}
std::size_t count(ballast::jagged<bag_id, sample_id> const& bags, bag_id bag)
{
  return bags[bag].size();
}
#if defined(REJECTED)
// EXPECT: (use of deleted function|overload resolution selected deleted operator).*\+
auto by_arithmetic(rank_id rank)
{
  return rank + 1;
}
// EXPECT: (use of deleted function|overload resolution selected deleted operator).*==
auto by_mixed_kinds(rank_id rank, bag_id bag)
{
  return rank == bag;
}
// EXPECT: use of deleted|selected deleted operator
auto by_an_index_of_another_kind(owners_of_samples const& owners, rank_id rank)
{
  return owners[rank];
}
// EXPECT: (constraint failure|constraints not satisfied)
ballast::jagged<int, sample_id> rows_of_numbers;
// EXPECT: (no match for 'operator\[\]'|no viable overloaded operator\[\])
auto by_another_key(ballast::jagged<bag_id, sample_id> const& bags, rank_id rank)
{
  return bags[rank].size();
}
#endif

// ---- Memory --------------------------------------------------------------------------------------

void use(ballast::workspace& memory)
{
  auto scratch = memory.open();
  (void)scratch.take<int>(3);
}
#if defined(REJECTED)
// EXPECT: (no matching function for call|no matching member function for call)
void use_for_owners(ballast::workspace& memory)
{
  auto scratch = memory.open();  // nobody would run their destructors
  (void)scratch.take<std::string>(3);
}
#endif

std::vector<float> activations()
{
  return {1, 2};
}

std::size_t bytes_of_rows()
{
  std::vector<float> there(2);
  std::vector<float> const here = activations();
  return ballast::rows_of(here, there, 1).row_bytes;
}
#if defined(REJECTED)
// EXPECT: movable_elements
auto const rows_of_a_temporary = ballast::rows_of(activations(), activations(), 1);
#endif

// ---- Lengths and costs ---------------------------------------------------------------------------

struct fixed {
  tokens length = 7;
  tokens operator()(ballast::random_source& /*random*/) const { return length; }
};
ballast::clamped_lengths<fixed> const lengths_between{fixed{}, 1, 9};
#if defined(REJECTED)
struct number {
  tokens length = 7;
};
// EXPECT: length_distribution
ballast::clamped_lengths<number> const lengths_of_no_distribution{number{}, 1, 9};
#endif

constexpr auto shape = ballast::known_shape("llama3-8b");
constexpr auto corrected = ballast::gamma_corrected(shape, 0.405);
auto const one = [](tokens) { return 1; };
auto const sum = ballast::sum_of{ballast::quadratic_cost{1}, one}(tokens{7}) + corrected(16);
#if defined(REJECTED)
// EXPECT: no_known_model_has_this_name
constexpr auto of_an_unknown_model = ballast::known_shape("llama3-8");
// EXPECT: gamma_is_finite_and_not_negative
constexpr auto of_negative_gamma = ballast::gamma_corrected(shape, -0.405);
// EXPECT: cost_model
auto const of_floating_point =
    ballast::sum_of{ballast::quadratic_cost{1}, [](tokens) { return 0.5; }}(tokens{7});
#endif

constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
constexpr auto of_one = "transformer:d=1"_cost;
constexpr auto of_tokens = "tokens"_cost;
#if defined(REJECTED)
// EXPECT: a_flag_of_a_cost_is_0_or_1.*"causal"
constexpr auto flag = "transformer:d=3072,causal=2"_cost;
// EXPECT: heads_divide_d_or_head_dim_is_given.*"heads"
constexpr auto heads = "transformer:d=8,heads=3"_cost;
// EXPECT: a_cost_has_no_such_key.*"gama"
constexpr auto key = "transformer:d=3072,gama=0.405"_cost;
// EXPECT: the_hidden_size_is_below_2_to_the_30_or_ffn_is_given.*"d"
constexpr auto large = "transformer:d=1073741824"_cost;
// EXPECT: a_value_of_a_cost_is_a_number_without_sign_or_exponent.*"gamma"
constexpr auto exponent = "transformer:d=3072,gamma=1e3"_cost;
// EXPECT: a_key_of_a_cost_is_given_once.*"gamma"
constexpr auto repeated = "transformer:d=8,gamma=1,gamma=1"_cost;
// EXPECT: a_dimension_of_a_transformer_is_at_least_1
constexpr auto dimension = "transformer:d=0"_cost;
// EXPECT: a_transformer_needs_its_hidden_size.*"d"
constexpr auto size = "transformer:layers=2,gamma=0.405"_cost;
// EXPECT: a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens.*"transformers"
constexpr auto syntax = "transformers"_cost;
#endif

// ---- Bags ----------------------------------------------------------------------------------------

constexpr ballast::bag_spec specification = "g1n2+g1n1"_bags;
#if defined(REJECTED)
// EXPECT: a_bag_specification_reads_like_g1n2_plus_g4n1
constexpr ballast::bag_spec no_specification = "g1n2+n1"_bags;
// EXPECT: a_bag_specification_has_no_zero
constexpr ballast::bag_spec of_zero_gpus = "g1n2+g0n1"_bags;
#endif

// ---- Partitions ----------------------------------------------------------------------------------

struct document {
  std::int64_t words = 0;
};
std::vector<document> const documents(4);
std::vector<tokens> const lengths = {3, 2, 1};
auto const laid_out = ballast::lay_out("g1n8"_bags, ballast::cluster{});
ballast::bag_layout const bags = ballast::one_gpu_bags(8);
ballast::longest_processing_time const policy;
auto const words = &document::words;
auto const others = [](char const*) { return 1; };
auto const both = [](document const& each) { return ballast::cost_vector<2>{each.words, 1}; };
auto const half = [](document) { return 0.5; };
auto const plan = ballast::partition(documents, bags, words, words, {}, policy);
auto const by_both = ballast::partition(documents, bags, both, words, {}, policy);
#if defined(REJECTED)
// EXPECT: the_length_of_a_sample_must_be_an_integer
auto const by_half_a_length = ballast::partition(documents, bags, words, half, {}, policy);
// EXPECT: the_policy_must_take_a_partition_problem_loads_owner_and_workspace
auto const by_no_policy = ballast::partition(documents, bags, words, words, {}, [](int) {});
// EXPECT: the_policy_must_take_a_cost_vector_problem_loads_owner_and_workspace
auto const of_several =
    ballast::partition(documents, bags, both, words, {}, ballast::round_robin{});
// EXPECT: cost_of_must_take_a_sample
auto const by_the_cost_of_others = ballast::partition(documents, bags, others, words, {}, policy);
// EXPECT: length_of_must_take_a_sample
auto const by_the_length_of_others = ballast::partition(documents, bags, words, others, {}, policy);
// EXPECT: samples_must_be_a_range_that_can_be_read_twice
auto const of_a_number = ballast::partition(4, bags, words, words, {}, policy);
// EXPECT: bags_must_be_the_value_of_the_result_not_the_result
auto const of_a_result = ballast::partition(documents, laid_out, words, words, {}, policy);
// EXPECT: the_cost_of_a_sample_must_be_an_integer_or_ranks_could_differ
auto const by_half_a_cost = ballast::partition(documents, bags, half, words, {}, policy);
// EXPECT: the_cost_comes_before_limits_and_policy
auto const with_the_policy_first = ballast::partition(documents, bags, policy, words);
// EXPECT: bags_must_be_a_bag_layout_as_lay_out_makes_it
auto const without_layout = ballast::partition(documents, 8, words, words, {}, policy);
// EXPECT: samples_that_are_no_integers_need_length_of
auto const without_length = ballast::partition(documents, bags, words, {}, policy);
#endif

std::vector<std::int16_t> const prompts = {1, 1, 2};
std::vector<rank_id> const homes(3);
std::vector<std::int64_t> const weights = {5, 1, 2};
auto const limited = ballast::partition(
    lengths, bags, one,
    {.together = prompts, .home = homes, .also = {{.of = weights, .most_per_gpu = 7}}});
#if defined(REJECTED)
std::vector<std::string> const texts = {"a", "a", "b"};
std::vector<std::uint32_t> const plain_homes = {0, 1, 1};
std::vector<double> const fractions = {0.5, 1, 2};
// EXPECT: limits.together and limits.apart take an array of
ballast::placement_limits const of_texts{.together = texts};
// EXPECT: limits.home takes an array of rank_id
ballast::placement_limits const of_plain_homes{.home = plain_homes};
// EXPECT: limits.also.of takes an array of std::int64_t
ballast::placement_limits const of_fractions{.also = {{.of = fractions, .most_per_gpu = 7}}};
#endif

ballast::refine const of_packed{ballast::round_robin{}};
auto const packed = ballast::pack(lengths, {.most_per_gpu = 8192});
auto const packed_words = ballast::pack(documents, words, {.most_per_gpu = 8192});
#if defined(REJECTED)
// EXPECT: refine exchanges samples of packed bags, and its inner policy pads them
auto const of_padded = ballast::refine{ballast::padded_batches{}};
// EXPECT: placement_limits
auto const packed_by_a_number = ballast::pack(lengths, 8192);
// EXPECT: integer_projection
auto const packed_without_length = ballast::pack(documents, {.most_per_gpu = 8192});
#endif

// ---- Orders and ranks ----------------------------------------------------------------------------

ballast::result<ballast::compiled_schedule> const schedule =
    ballast::compiled_schedule::make(ballast::chain_of_stages(1, 1), ballast::pipeline_schedule{});
ballast::pipeline_times const times;
auto const ordered = ballast::order_microbatches(*schedule, times, ballast::given_order{});
std::vector<std::vector<sample_id>> const microbatches;
auto const both_passes = [](tokens length) {
  return std::array{ballast::stage_time{length, length}};
};
auto const summed = ballast::sum_over_samples(microbatches, lengths, both_passes);
auto ranks = ballast::thread_communicator::make(1);
bool const agreed = ballast::agree(ranks[0], 7, "the plan").has_value();
#if defined(REJECTED)
// EXPECT: the_policy_must_take_an_order_problem_order_and_workspace
auto const ordered_by_no_policy = ballast::order_microbatches(*schedule, times, [](int) {});
// EXPECT: the_schedule_must_be_the_value_of_the_result_not_the_result
auto const ordered_of_a_result =
    ballast::order_microbatches(schedule, times, ballast::given_order{});
// EXPECT: module_times_projection
auto const of_no_module =
    ballast::sum_over_samples(microbatches, lengths, [](tokens length) { return length; });
// EXPECT: communicator
bool const agreed_over_no_communicator = ballast::agree(ranks, 7, "the plan").has_value();
#endif
