// EXPECT: best_of compares plans of one kind
#include <ballast/partition/best_of.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>

int main()
{
  auto const policy =
      ballast::best_of{ballast::padded_batches{}, ballast::longest_processing_time{}};
  return policy.restricts() ? 0 : 1;
}
