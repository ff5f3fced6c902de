// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "src/base/base64.h"
#include "src/serve/service.h"

namespace bascule {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--text:#1c2430;--soft:#566072;--back:#f5f6f8;--card:#fff;--line:#c6ccd6;--main:#1f5fbf;--on:#fff}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ee;--soft:#a8b1bf;--back:#14181e;--card:#1d232b;--line:#465061;--main:#8ab4f8;--on:#10141a}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back)}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem}
h1{font-size:1.5rem;margin:0;overflow-wrap:anywhere}
p{color:var(--soft);margin:.3rem 0 1rem}
form,#out>*{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem;margin:0 0 1rem}
label{display:block;font-weight:600;margin:0 0 .8rem}
input,textarea{display:block;width:100%;margin-top:.25rem;padding:.5rem;font:inherit;font-weight:400;color:inherit;background:var(--back);border:1px solid var(--line);border-radius:.4rem}
button{font:inherit;font-weight:600;padding:.5rem 1.2rem;border:0;border-radius:.4rem;background:var(--main);color:var(--on);cursor:pointer}
button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:3px solid var(--main);outline-offset:2px}
[hidden]{display:none}
table{width:100%;border-collapse:collapse}
caption{text-align:left;font-weight:600;padding-bottom:.4rem}
td,th{padding:.25rem .4rem;text-align:left;overflow-wrap:anywhere;font-weight:400}
td{width:6rem;text-align:right;font-variant-numeric:tabular-nums}
meter{width:100%;min-width:4rem}
code{overflow-wrap:anywhere}
img{max-width:100%;display:block}
)css";

constexpr std::string_view kMarkup = R"html(<main>
<h1></h1>
<p id="facts">The same input gets the same answer, byte for byte, whatever else is asked.</p>
<form>
<label hidden>Text<input name="text" autocomplete="off"></label>
<label hidden>Compared with these texts, one a line<textarea name="others" rows="4">a cat
a red car
the sea at night</textarea></label>
<label hidden>Picture<input name="picture" type="file" accept="image/*"></label>
<label>API key, if the server asks for one<input name="key" type="password" autocomplete="off"></label>
<button>Ask</button>
</form>
<div id="out" aria-live="polite"></div>
</main>
)html";

constexpr std::string_view kScript = R"js(
const task = document.body.dataset.task, form = document.forms[0], field = form.elements;
const out = document.getElementById('out');
const hasPictures = document.body.dataset.pictures == 'yes';
const shown = {vectors: ['text', 'others'], pictures: []}[task] || ['text'];
if (hasPictures) shown.push('picture');
if (hasPictures && task == 'vectors') field.picture.parentElement.firstChild.textContent = 'Picture, in place of the text';
shown.forEach(name => { field[name].parentElement.hidden = false; });
document.querySelector('h1').textContent = document.title;
field.text.value = task == 'words' ? document.body.dataset.mask : 'a small animal';

function element(name, text, parent) {
  const made = document.createElement(name);
  made.textContent = text;
  parent.append(made);
  return made;
}
function table(title, rows) {
  const made = element('table', '', element('section', '', out));
  element('caption', title, made);
  for (const [label, number] of rows) {
    const row = element('tr', '', made);
    element('th', label, row).scope = 'row';
    const meter = element('meter', '', element('td', '', row));
    meter.min = 0, meter.max = 1, meter.value = number;
    meter.setAttribute('aria-label', label + ': ' + number.toFixed(4));
    element('td', number.toFixed(4), row);
  }
}
async function ask(path, body, type) {
  const headers = {'Content-Type': type};
  if (field.key.value) headers.Authorization = 'Bearer ' + field.key.value;
  const answer = await fetch(path, {method: 'POST', headers, body});
  if (answer.ok && answer.headers.get('Content-Type') == 'image/png') return answer.blob();
  const json = await answer.json();
  if (!answer.ok) throw new Error(json.error + ' (' + answer.status + ')');
  return json;
}
function chosenPicture() {
  const file = field.picture.files[0];
  return file && new Promise(resolve => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(file);
  });
}
const json = (path, body) => ask(path, JSON.stringify(body), 'application/json');
const kinds = {
  async vectors() {
    const picture = await chosenPicture();
    const texts = [field.text.value, ...field.others.value.split('\n').filter(line => line.trim())];
    const inputs = picture ? [{image: picture}, ...texts.slice(1)] : texts;
    const [first, ...others] = await json('/embed', {inputs, normalize: true});
    const near = others.map((one, i) => [texts[i + 1], one.reduce((sum, x, j) => sum + x * first[j], 0)]);
    table('Similarity (cosine)', near.sort((a, b) => b[1] - a[1]));
    const section = element('section', 'The vector has ' + first.length + ' numbers: ', out);
    element('code', first.slice(0, 8).join(', ') + ', \u2026', section);
  },
  async words() {
    const answer = await json('/fill-mask', {inputs: field.text.value});
    const masks = Array.isArray(answer[0]) ? answer : [answer];
    masks.forEach((mask, i) => table('Words for mask ' + (i + 1), mask.map(one => [one.token_str, one.score])));
  },
  async classes() {
    const picture = await chosenPicture();
    if (hasPictures && !picture) throw new Error('choose a picture');
    const inputs = picture ? {image: picture, text: field.text.value} : field.text.value;
    table('Classes', (await json('/predict', {inputs})).map(one => [one.label, one.score]));
  },
  async value() {
    const [{score}] = await json('/predict', {inputs: field.text.value});
    element('section', 'Value: ' + score, out);
  },
  async tags() {
    const found = await json('/predict', {inputs: field.text.value});
    if (found.length == 0) element('section', 'nothing is tagged', out);
    else table('Tags', found.map(one => [one.word + ': ' + one.entity_group, one.score]));
  },
  async texts() {
    element('section', (await json('/generate', {inputs: field.text.value})).generated_text, out);
  },
  async drawing() {
    const prompt = field.text.value, picture = await json('/', {inputs: prompt});
    const image = element('img', '', element('section', '', out));
    image.alt = prompt;
    image.src = URL.createObjectURL(picture);
  },
  async pictures() {
    const file = field.picture.files[0];
    if (!file) throw new Error('choose a picture');
    table('Classes', (await ask('/predict', file, file.type || 'image/png')).map(one => [one.label, one.score]));
  }
};
form.addEventListener('submit', async event => {
  event.preventDefault();
  out.replaceChildren();
  form.querySelector('button').disabled = true;
  const wait = element('section', 'Waiting for the answer\u2026', out);
  wait.hidden = true;
  const timer = setTimeout(() => { wait.hidden = false; }, 500);
  try {
    await kinds[task]();
  } catch (error) {
    element('section', error.message, out).setAttribute('role', 'alert');
  }
  clearTimeout(timer);
  wait.remove();
  form.querySelector('button').disabled = false;
});
)js";

const char* word_of(ServedTask task) {
  switch (task) {
    case ServedTask::kVectors: break;
    case ServedTask::kWords: return "words";
    case ServedTask::kPictureClasses: return "pictures";
    case ServedTask::kClasses: return "classes";
    case ServedTask::kValues: return "value";
    case ServedTask::kTags: return "tags";
    case ServedTask::kWrites: return "texts";
    case ServedTask::kDraws: return "drawing";
  }
  return "vectors";
}

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const char* const name = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : nullptr;
    out += name != nullptr ? std::string(name) : std::string(1, c);
  }
  return out;
}

// A source of a policy: the SHA-256 of a script's or style's text.
std::string source_of(std::string_view text) {
  char digest[base64_characters(32)];
  return "'sha256-" + std::string(base64_sha256(text, digest)) + "'";
}

}  // namespace

ServedPage served_page(const ServedModel& model, const std::string& name) {
  ServedPage page;
  const std::string mask = model.task() == ServedTask::kWords
                               ? "a " + model.tokens()[static_cast<std::size_t>(model.tokenizer().mask_id())] + " face"
                               : "";
  page.html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      html_text(name) + "</title>\n<style>" + std::string(kStyle) + "</style>\n<body data-task=\"" +
      word_of(model.task()) + "\" data-pictures=\"" + (model.reads_pictures() ? "yes" : "no") + "\" data-mask=\"" +
      html_text(mask) + "\">\n" + std::string(kMarkup) + "<script>" + std::string(kScript) + "</script>\n";
  page.headers =
      "Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src blob:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'; script-src " +
      source_of(kScript) + "; style-src " + source_of(kStyle) + "\r\n";
  return page;
}

}  // namespace bascule
