// What is shown: filters, order, selection and view, kept in the address so that a link brings them back.

const EMPTY = {
  from: "", to: "", low: "", high: "", problem: "", search: "", sort: "order",
  outcomes: "", finishes: "", uses: "", row: "", tab: "one", colour: "pull", pane: "list",
};
const state = { ...EMPTY };

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(EMPTY)) state[name] = given.get(name) ?? EMPTY[name];
  for (const name of ["from", "to", "low", "high"]) if (!Number.isFinite(Number(state[name]))) state[name] = "";
  if (!document.querySelector(`[data-tab="${CSS.escape(state.tab)}"]`)) state.tab = EMPTY.tab;
  if (![...byId("colour").options].some((option) => option.value === state.colour)) state.colour = EMPTY.colour;
}

function writeAddress() {
  const told = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== EMPTY[name]) told.set(name, value);
  history.replaceState(null, "", `#${told}`);
}

const FILTERS = ["from", "to", "low", "high", "problem", "outcomes", "finishes", "uses"];
const activeFilters = () => FILTERS.filter((name) => state[name] !== "").length;

// Indices of the names that are picked; all of them where none is.
function picked(text, names) {
  const wanted = new Set(text.split(",").filter((name) => name !== ""));
  return names.map((name) => wanted.size === 0 || wanted.has(name));
}

const bound = (text, otherwise) => (text.trim() === "" || Number.isNaN(Number(text)) ? otherwise : Number(text));

// The rows that fit, in order. matches: a byte for each row, of a search; null without one.
function fittingRows(matches) {
  const from = bound(state.from, -Infinity);
  const to = bound(state.to, Infinity);
  const low = bound(state.low, -Infinity);
  const high = bound(state.high, Infinity);
  const ofReward = low !== -Infinity || high !== Infinity;
  const outcomes = picked(state.outcomes, data.outcomes);
  const finishes = picked(state.finishes, data.finishes);
  const uses = picked(state.uses, data.uses);
  const wanted = state.problem.trim().toLowerCase();
  const problems = data.problems.map((parts, i) => wanted === "" || parts[0].toLowerCase() === wanted || data.problemText[i].includes(wanted));
  const rows = new Uint32Array(data.count);
  let size = 0;
  for (let row = 0; row < data.count; row += 1) {
    if (matches !== null && matches[row] === 0) continue;
    if (data.step[row] < from || data.step[row] > to || !problems[data.problem[row]]) continue;
    if (!outcomes[data.outcome[row]] || !finishes[data.finish[row]] || !uses[data.use[row]]) continue;
    const total = data.total[row];
    if (ofReward && (total === null || total < low || total > high)) continue;
    rows[size] = row;
    size += 1;
  }
  return sorted(rows.subarray(0, size));
}

function sortColumns() {
  const columns = { order: null, total: data.total, advantage: data.advantage, tokens: data.tokens, problem: data.problem };
  data.components.forEach((name, k) => { columns[`reward: ${name}`] = data.rewards[k]; });
  return columns;
}

function sorted(rows) {
  const [name, direction] = state.sort.split("|");
  const column = new Map(Object.entries(sortColumns())).get(name);
  const sign = direction === "down" ? -1 : 1;
  if (!column) return direction === "down" ? rows.slice().reverse() : rows;
  // What has no number comes last in either order.
  return rows.slice().sort((a, b) => {
    const [x, y] = [column[a], column[b]];
    if (x === y) return a - b;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return sign * (x - y) || a - b;
  });
}

// The rows whose text holds what is searched for, step by step so that the page stays responsive; null if another
// search began meanwhile.
let searches = 0;
let lastSearch = { text: "", matches: null };

async function searched(text, progress) {
  searches += 1;
  const own = searches;
  const wanted = text.toLowerCase();
  if (wanted === "") return { matches: null };
  if (lastSearch.text === wanted) return { matches: lastSearch.matches };
  const matches = new Uint8Array(data.count);
  let done = 0;
  for (const step of data.steps) {
    const first = data.firstRow.get(step);
    const rows = first === undefined ? [] : (await textsOf(step)).rows;
    if (own !== searches) return null;
    rows.forEach(([, content, judged], i) => {
      if (content.toLowerCase().includes(wanted) || (judged[0] ?? "").toLowerCase().includes(wanted)) matches[first + i] = 1;
    });
    done += 1;
    progress(done / data.steps.length);
  }
  lastSearch = { text: wanted, matches };
  return { matches };
}
