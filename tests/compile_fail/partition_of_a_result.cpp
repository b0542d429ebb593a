// EXPECT: bags_must_be_the_value_of_the_result_not_the_result
// TWIN: partition_ok.cpp
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/lay_out.hpp>

#include <cstdint>
#include <vector>

struct document {
  std::int64_t words = 0;
};

int main()
{
  using namespace ballast::literals;
  std::vector<document> const documents(4);
  auto const laid_out = ballast::lay_out("g1n8"_bags, ballast::cluster{});
  ballast::bag_layout const bags = ballast::one_gpu_bags(8);
  ballast::longest_processing_time const policy;
  auto const plan =
      ballast::partition(documents, laid_out, policy, &document::words, &document::words);
  return plan && laid_out && policy == policy ? bags.size() == 8 : 1;
}
