#!/usr/bin/env bash
# Shows a page in headless Chromium, in light and dark, wide and narrow, and checks what came out:
#   page_check.sh PAGE.html [SECTION...]
# The sections are the headings that the page promises, in order, with "picture:" in front of those
# that have one; those of a plan whose bytes are known, if none are given.
# Exit status: 0 all as it should be, 1 something is wrong (said on standard error), 77 no Chromium.
set -euo pipefail

page=${1:?usage: page_check.sh PAGE.html [SECTION...]}
shift
if (($# == 0)); then
  set -- 'picture:Work per GPU' 'picture:Step timeline' 'picture:Bytes moved' \
    'picture:Sample lengths' 'picture:Cost of a sample' Steps Settings
fi
sections=$(printf '%s\n' "$@" | sed 's/^picture://' | paste -sd '|')
pictures=$(printf '%s\n' "$@" | grep -c '^picture:')
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

# browse WIDTH SCHEME FILE OPTION...; the scheme is Blink's number: 0 is dark, 1 is light.
browse() {
  local width=$1 scheme=$2 file=$3
  shift 3
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
    --user-data-dir="$work/profile" --window-size="$width,1600" \
    --blink-settings="preferredColorScheme=$scheme" "$@" "file://$file" 2>"$work/log"
}

# 1. The file asks for nothing from outside.
if grep -nEi '(src|href|srcset|action|data)=|url\(|@import|<(script|link|iframe|object|embed)|https?:' \
  "$page" >"$work/requests"; then
  wrong "the page refers to something outside of it: $(head -c 300 "$work/requests")"
fi

# 2. A copy of the page measures itself: scripts are forbidden in the page, so the copy allows one.
cat >"$work/probe.html" <<'PROBE'
<script>
const lines = [];
const say = (...words) => lines.push(words.join(' '));
for (const heading of document.querySelectorAll('section > h2')) say('section', heading.textContent);
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  say('svg', Math.round(box.width), Math.round(box.height));
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
  for (const [content, at] of texts) {
    if (at.x < 0 || at.y < 0 || at.x + at.width > width || at.y + at.height > height) {
      say('outside', content);
    }
  }
  texts.forEach(([content, a], index) => texts.slice(index + 1).forEach(([other, b]) => {
    const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
    const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
    if (across > 1 && down > 3) say('overlapping', content, '|', other);
  }));
}
for (const value of document.querySelectorAll('.value')) {
  if (value.scrollWidth > value.clientWidth) say('cut', value.textContent);
}
if (document.documentElement.scrollWidth > window.innerWidth) say('wider than the window');
say('background', getComputedStyle(document.body).backgroundColor);
document.body.textContent = '';
const out = document.body.appendChild(document.createElement('pre'));
out.textContent = '\nprobe begin\n' + lines.join('\n') + '\nprobe end\n';
</script>
PROBE
sed -e '/http-equiv="Content-Security-Policy"/d' "$page" >"$work/probed.html"
cat "$work/probe.html" >>"$work/probed.html"

backgrounds=()
for scheme in 0 1; do
  for width in 1200 500; do
    shown="at width $width, colour scheme $scheme"
    browse "$width" "$scheme" "$work/probed.html" --dump-dom >"$work/dom" ||
      wrong "the browser failed $shown: $(tail -c 300 "$work/log")"
    sed -n '/^probe begin$/,/^probe end$/p' "$work/dom" >"$work/probe"
    grep -q '^probe end$' "$work/probe" || wrong "the page did not load $shown"

    found=$(sed -n 's/^section //p' "$work/probe" | paste -sd '|')
    [[ $found == "$sections" ]] || wrong "the sections are '$found' $shown"
    [[ $(grep -c '^svg ' "$work/probe") -eq $pictures ]] ||
      wrong "there are not $pictures pictures $shown"
    while read -r _ picture_width picture_height; do
      ((picture_width >= 300 && picture_height >= 60)) ||
        wrong "a picture is only $picture_width x $picture_height $shown"
    done < <(grep '^svg ' "$work/probe")
    while read -r complaint; do wrong "$complaint $shown"; done \
      < <(grep -E '^(outside|overlapping|cut|wider) ' "$work/probe")
    if [[ $width == 1200 ]]; then
      backgrounds+=("$(sed -n 's/^background //p' "$work/probe")")
      # 3. The page itself, whose policy forbids scripts, makes a picture too.
      browse "$width" "$scheme" "$page" --screenshot="$work/page.png" >/dev/null ||
        wrong "no screenshot $shown"
      bytes=$(wc -c <"$work/page.png" || echo 0)
      ((bytes > 20000)) || wrong "the screenshot has only $bytes bytes $shown"
    fi
  done
done
[[ ${backgrounds[0]} != "${backgrounds[1]}" ]] ||
  wrong "dark and light have the same background: ${backgrounds[0]}"

((failures == 0)) || exit 1
echo "the page is complete and self-contained, in light and dark, wide and narrow"
