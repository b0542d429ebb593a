// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <csetjmp>
#include <cstdio>
#include <memory>

#include <jpeglib.h>  // after cstdio, which it needs

// JPEG files, by libjpeg.
namespace jpeg_file {

/// Rows of pixels, three bytes each.
struct picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::byte> pixels;
};

struct open_file {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file;

  open_file(std::string const& path, char const* mode)
      : file(std::fopen(path.c_str(), mode),
             [](std::FILE* each) { return each == nullptr ? 0 : std::fclose(each); })
  {}
};

// libjpeg leaves a failure by longjmp, over no object that has a destructor.
struct failure {
  jpeg_error_mgr manager;  // first: libjpeg knows its address
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};

inline void leave(j_common_ptr info)
{
  auto* const own = reinterpret_cast<failure*>(info->err);
  info->err->format_message(info, own->text);
  std::longjmp(own->back, 1);
}

inline void count_warning(j_common_ptr info, int level)
{
  if (level < 0) { leave(info); }  // the file is damaged
}

inline jpeg_error_mgr* leaving(failure& own)
{
  jpeg_std_error(&own.manager);
  own.manager.error_exit = leave;
  own.manager.emit_message = count_warning;
  return &own.manager;
}

/// Reads the size of a picture and, where they are asked for, its pixels; false on failure.
inline bool decode(std::FILE* file, picture& into, bool pixels, failure& failed)
{
  jpeg_decompress_struct info{};
  info.err = leaving(failed);
  if (setjmp(failed.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  into.width = info.image_width;
  into.height = info.image_height;
  if (pixels) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    into.pixels.resize(into.width * into.height * 3);
    while (info.output_scanline < info.output_height) {
      auto* row = reinterpret_cast<JSAMPROW>(&into.pixels[info.output_scanline * into.width * 3]);
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

/// Errors      unreadable: there is no such file; bad_row: it is no sound JPEG file.
inline ballast::result<picture> read(std::string const& path, bool pixels = true)
{
  open_file const own(path, "rb");
  if (own.file == nullptr) {
    return ballast::fail(ballast::error_code::unreadable, 0, path, " cannot be opened");
  }
  picture into;
  failure failed{};
  if (decode(own.file.get(), into, pixels, failed)) { return into; }
  return ballast::fail(ballast::error_code::bad_row, 0, path, ": ", failed.text);
}

inline bool write(std::string const& path, picture const& from)
{
  open_file const own(path, "wb");
  if (own.file == nullptr) { return false; }
  jpeg_compress_struct info{};
  failure failed{};
  info.err = leaving(failed);
  if (setjmp(failed.back) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, own.file.get());
  info.image_width = static_cast<JDIMENSION>(from.width);
  info.image_height = static_cast<JDIMENSION>(from.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = reinterpret_cast<JSAMPROW>(
        const_cast<std::byte*>(&from.pixels[info.next_scanline * from.width * 3]));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

}  // namespace jpeg_file
