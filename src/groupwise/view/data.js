// The blocks of the page, unpacked when they are needed, and the columns of the index.

// As in view/levels.py: printable characters without the quotation mark and the backslash; a space is no value.
const HIGHEST = 90;
const MIDDLE = 45;
const levelOf = (code) => (code === 32 ? -1 : code - 35 - (code > 92 ? 1 : 0));

const KEPT_BLOCKS = 400;
const blocks = new Map();

async function unpacked(id) {
  const element = document.getElementById(id);
  if (element === null) return null;
  const binary = atob(element.textContent);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// A block that was read before, or from the page; those that were read longest ago are forgotten.
function block(id) {
  const found = blocks.get(id) ?? unpacked(id);
  blocks.delete(id);
  blocks.set(id, found);
  if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
  return found;
}

const data = { count: 0 };

async function loadIndex() {
  const index = await unpacked("index");
  Object.assign(data, index, index.columns);
  data.count = data.step.length;
  data.uses = ["trained on", "not trained on"];
  data.use = data.advantage.map((value) => (value === null ? 1 : 0));
  data.firstRow = new Map();
  data.step.forEach((step, row) => { if (!data.firstRow.has(step)) data.firstRow.set(step, row); });
  data.problemText = data.problems.map((parts) => parts.join("\n").toLowerCase());
  data.byKey = new Map(data.step.map((_, row) => [keyOf(row), row]));
  const sizes = data.advantage.filter((value) => value !== null && value !== 0).map(Math.abs).sort((a, b) => a - b);
  data.largeAdvantage = sizes.length ? sizes[Math.floor(0.9 * (sizes.length - 1))] : 1;
}

// A name that stays when the page is made again with more steps.
const keyOf = (row) => `${data.step[row]}.${data.position[row]}.${data.sample[row]}`;

const textsOf = async (step) => (await block(`text-${step}`)) ?? { prompts: [], rows: [] };

async function contentOf(row) {
  const step = data.step[row];
  const at = row - data.firstRow.get(step);
  const [texts, values] = await Promise.all([textsOf(step), block(`values-${step}`)]);
  const [prompt, text, judged, detail] = texts.rows[at];
  const [extracted = "", method = "", flags = []] = judged;
  return { prompt: texts.prompts[prompt], text, extracted, method, flags, detail, values: values?.[at] ?? {} };
}

// Rows of a group stand together.
function groupOf(row) {
  const isOwn = (other) => data.step[other] === data.step[row] && data.position[other] === data.position[row];
  let first = row;
  let last = row;
  while (first > 0 && isOwn(first - 1)) first -= 1;
  while (last + 1 < data.count && isOwn(last + 1)) last += 1;
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function rowsOfProblem(problem) {
  const rows = [];
  for (let row = 0; row < data.count; row += 1) if (data.problem[row] === problem) rows.push(row);
  return rows;
}

// Numbers as people read them.
const counted = (value) => value.toLocaleString("en");
const shown = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−"));
const signed = (value, digits = 2) => (value > 0 ? "+" : "") + shown(value, digits);

// An element with text, never markup.
function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);
