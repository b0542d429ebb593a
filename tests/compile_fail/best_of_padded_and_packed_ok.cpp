#include <ballast/partition/best_of.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>

int main()
{
  auto const policy =
      ballast::best_of{ballast::padded_batches{}, ballast::padded_batches{.orders = 0}};
  return policy.restricts() ? 0 : 1;
}
