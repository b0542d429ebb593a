#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows pages in headless Chromium, in light and dark, wide and narrow, and checks what came out:
#   page_check.sh PAGE.html SECTION... [-- PAGE.html SECTION...]...
# The sections are the headings that the page promises, in order, with "picture:" in front of those
# that have one. One browser shows all pages, since most of the time goes into its start.
# Exit status: 0 all as it should be, 1 something is wrong (said on standard error), 77 no Chromium.
set -euo pipefail

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]]; then
  echo "skipped: no chromium, chromium-browser or google-chrome on the PATH"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
wrong() {
  echo "wrong: $*" >&2
  failures=$((failures + 1))
}

# ---- The browser, spoken to in its DevTools protocol: messages in JSON, each ended by a zero byte ----

coproc chromium {
  exec "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
    --user-data-dir="$work/profile" --remote-debugging-pipe \
    3<&0 4>&1 </dev/null >/dev/null 2>"$work/log"
}
to_browser=${chromium[1]}
from_browser=${chromium[0]}
calls=0
session=

# await TEXT: the next message that contains the text, into $message.
await() {
  while IFS= read -r -d '' -t 60 message <&"$from_browser"; do
    [[ $message != *"$1"* ]] || return 0
  done
  echo "wrong: the browser gave no answer: $(tail -c 300 "$work/log")" >&2
  exit 1
}

# call METHOD PARAMETERS: its answer, into $message.
call() {
  calls=$((calls + 1))
  printf '{"id":%d,%s"method":"%s","params":%s}\0' "$calls" "$session" "$1" "$2" >&"$to_browser"
  await "{\"id\":$calls,"
  if [[ $message == "{\"id\":$calls,\"error\":"* ]]; then
    echo "wrong: the browser refused $1: $message" >&2
    exit 1
  fi
}

# text_of NAME: the text that $message has by this name, without anything that JSON would escape. Bash
# takes seconds to cut a text as long as a picture; sed does not.
text_of() {
  sed "s/.*\"$1\":\"//; s/\".*//" <<<"$message"
}

# ---- What is asked of a page ----

# A page measures itself. It forbids scripts, but DevTools may evaluate an expression all the same.
read -r -d '' probe <<'PROBE' || true
(() => {
  const lines = [];
  const say = (...words) => lines.push(words.join(' '));
  for (const heading of document.querySelectorAll('section > h2')) say('section', heading.textContent);
  for (const svg of document.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect();
    if (box.width === 0) continue;
    say('svg', Math.round(box.width), Math.round(box.height));
    const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
    const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
    for (const [content, at] of texts) {
      if (at.x < 0 || at.y < 0 || at.x + at.width > width || at.y + at.height > height) {
        say('outside', content);
      }
    }
    if (box.left < 0 || box.right > window.innerWidth) say('outside', 'a picture');
    texts.forEach(([content, a], index) => texts.slice(index + 1).forEach(([other, b]) => {
      const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      if (across > 1 && down > 3) say('overlapping', content, '|', other);
    }));
  }
  for (const box of document.querySelectorAll('body, body *:not(svg, svg *)')) {
    if (box.clientWidth > 0 && box.scrollWidth > box.clientWidth) {
      say('cut', box.tagName, box.className, box.scrollWidth, box.clientWidth);
    }
  }
  if (document.documentElement.scrollWidth > window.innerWidth) say('wider than the window');
  say('background', getComputedStyle(document.body).backgroundColor);
  say('end');
  return btoa(unescape(encodeURIComponent(lines.join('\n') + '\n')));
})()
PROBE
probe=${probe//\\/\\\\}
probe=${probe//$'\n'/ }

# check_page PAGE SECTION...
check_page() {
  local page=$1 sections pictures scheme width shown found bytes
  shift
  sections=$(printf '%s\n' "$@" | sed 's/^picture://' | paste -sd '|')
  pictures=$(printf '%s\n' "$@" | grep -c '^picture:' || true)

  # The file asks for nothing from outside.
  if grep -nEi '(src|href|srcset|action|data)=|url\(|@import|<(script|link|iframe|object|embed)|https?:' \
    "$page" >"$work/requests"; then
    wrong "$page refers to something outside of it: $(head -c 300 "$work/requests")"
  fi

  local backgrounds=()
  for scheme in dark light; do
    for width in 1280 390; do
      shown="in $page at width $width, $scheme"
      call Emulation.setDeviceMetricsOverride \
        "{\"width\":$width,\"height\":1600,\"deviceScaleFactor\":1,\"mobile\":false}"
      call Emulation.setEmulatedMedia \
        "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$scheme\"}]}"
      call Page.navigate "{\"url\":\"file://$(realpath "$page")\"}"
      await '"method":"Page.loadEventFired"'
      call Runtime.evaluate "{\"expression\":\"$probe\"}"
      text_of value | base64 -d >"$work/probe" || true
      grep -q '^end$' "$work/probe" || wrong "no measures $shown: ${message:0:300}"

      found=$(sed -n 's/^section //p' "$work/probe" | paste -sd '|')
      [[ $found == "$sections" ]] || wrong "the sections are '$found' $shown"
      [[ $(grep -c '^svg ' "$work/probe") -eq $pictures ]] || wrong "there are not $pictures pictures $shown"
      while read -r _ picture_width picture_height; do
        ((picture_width >= 300 && picture_height >= 60)) ||
          wrong "a picture is only $picture_width x $picture_height $shown"
      done < <(grep '^svg ' "$work/probe")
      while read -r complaint; do wrong "$complaint $shown"; done \
        < <(grep -E '^(outside|overlapping|cut|wider) ' "$work/probe")
      if [[ $width == 1280 ]]; then
        backgrounds+=("$(sed -n 's/^background //p' "$work/probe")")
        call Page.captureScreenshot '{"format":"png"}'
        bytes=$(text_of data | base64 -d | wc -c)
        ((bytes > 20000)) || wrong "the screenshot has only $bytes bytes $shown"
      fi
    done
  done
  [[ ${backgrounds[0]} != "${backgrounds[1]}" ]] ||
    wrong "dark and light have the same background in $page: ${backgrounds[0]}"
}

call Target.createTarget '{"url":"about:blank"}'
call Target.attachToTarget "{\"targetId\":\"$(text_of targetId)\",\"flatten\":true}"
session="\"sessionId\":\"$(text_of sessionId)\","
call Page.enable '{}'

while (($# > 0)); do
  page_and_sections=()
  while (($# > 0)) && [[ $1 != -- ]]; do
    page_and_sections+=("$1")
    shift
  done
  (($# == 0)) || shift
  check_page "${page_and_sections[@]}"
done
session=
call Browser.close '{}'
wait "$chromium_PID" || true

((failures == 0)) || exit 1
echo "the pages are complete and self-contained, in light and dark, wide and narrow"
