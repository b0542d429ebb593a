// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ballast_test {

/// A new folder that is removed with all that is in it.
class temporary_folder {
 public:
  temporary_folder()
  {
    std::string pattern = (std::filesystem::temp_directory_path() / "ballast-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) { throw std::runtime_error("no folder for a test"); }
    path_ = pattern;
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  ~temporary_folder()
  {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace ballast_test
