// EXPECT: the_costs_of_a_sample_must_be_a_cost_vector
// TWIN: vectors_ok.cpp
#include <ballast/partition/vectors/partition_vectors.hpp>
#include <ballast/partition/vectors/vector_refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstdint>
#include <vector>

struct picture {
  std::int64_t tokens = 0;
};

ballast::cost_vector<2> encoder_and_llm(picture const& each)
{
  return {each.tokens, 1};
}

int main()
{
  std::vector<picture> const pictures(4);
  ballast::bag_layout const bags = ballast::one_gpu_bags(8);
  ballast::vector_refine<> const policy;
  auto const plan = ballast::partition_vectors(pictures, 8, policy, &picture::tokens);
  return plan && policy == policy ? bags.size() == 8 : 1;
}
