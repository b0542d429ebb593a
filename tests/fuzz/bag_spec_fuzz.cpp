// What the parser takes is what it says: rendered and read again it is the same specification, and
// its sums are those of its groups. What it refuses is refused at a place inside the text.

#include <ballast/topology/bag_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const spec = ballast::parse_bags(text);
  if (!spec) {
    if (spec.error().position > size || spec.error().message.empty()) { std::abort(); }
    return 0;
  }
  std::string rendered;
  std::size_t gpus = 0;
  for (auto const group : spec->groups()) {
    if (group.gpus == 0 || group.bags == 0) { std::abort(); }
    gpus += std::size_t{group.gpus} * group.bags;
    rendered += (rendered.empty() ? "g" : "+g") + std::to_string(group.gpus) + "n" +
                std::to_string(group.bags);
  }
  if (gpus != spec->gpus() || ballast::parse_bags(rendered) != spec) { std::abort(); }
  return 0;
}
