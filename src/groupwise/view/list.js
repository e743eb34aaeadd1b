// The list: only the rows in sight are in the page.

const ROW_HEIGHT = 56;
const MARGIN_ROWS = 6;
const list = { rows: new Uint32Array(0), at: -1 };

function showRows(rows) {
  list.rows = rows;
  byId("spacer").style.height = `${rows.length * ROW_HEIGHT}px`;
  const wanted = data.byKey.get(state.row);
  list.at = wanted === undefined ? -1 : rows.indexOf(wanted);
  if (list.at < 0 && rows.length > 0) list.at = 0;
  state.row = rows.length > 0 ? keyOf(rows[list.at]) : "";
  if (list.at >= 0) bringIntoSight(list.at);
  drawList();
}

function bringIntoSight(at) {
  const box = byId("list");
  const top = at * ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + ROW_HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW_HEIGHT - box.clientHeight;
}

function drawList() {
  const box = byId("list");
  const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
  const last = Math.min(list.rows.length, Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + MARGIN_ROWS);
  const drawn = [];
  for (let at = first; at < last; at += 1) drawn.push(drawnRow(at));
  byId("spacer").replaceChildren(...drawn);
  const isDrawn = list.at >= first && list.at < last;
  if (isDrawn) box.setAttribute("aria-activedescendant", `at-${list.at}`);
  else box.removeAttribute("aria-activedescendant");
}

function drawnRow(at) {
  const row = list.rows[at];
  const [problem, , question] = data.problems[data.problem[row]];
  const element = make(
    "div",
    { class: "row", role: "option", id: `at-${at}`, "aria-selected": String(at === list.at),
      "aria-posinset": at + 1, "aria-setsize": list.rows.length },
    make("span", { class: "row-question model-text", text: (question || problem).slice(0, 200) }),
    make("span", { class: "row-reward", text: shown(data.total[row]) }),
    make(
      "span",
      { class: "row-facts quiet" },
      outcomeMark(row),
      ` step ${data.step[row]} · sample ${data.sample[row]} · ${counted(data.tokens[row])} tokens`,
    ),
    advantageMark(data.advantage[row]),
  );
  element.style.top = `${at * ROW_HEIGHT}px`;
  element.dataset.at = at;
  return element;
}

const MARKS = { correct: "✓", wrong: "✗", no_answer: "∅", error: "!", timeout: "!", undecided: "?" };

function outcomeMark(row) {
  const name = data.outcomes[data.outcome[row]];
  const kind = name === "correct" ? "good" : name === "wrong" ? "bad" : "other";
  return make("span", { class: `outcome ${kind}`, text: `${MARKS[name] ?? "·"} ${name.replace("_", " ")}` });
}

// A bar from the middle: right and blue above 0, left and orange below.
function advantageMark(value) {
  const element = make("span", { class: "advantage", title: "Advantage" });
  if (value === null) {
    element.append(make("span", { class: "quiet", text: "not trained on" }));
    return element;
  }
  const share = Math.min(1, Math.abs(value) / (2 * data.largeAdvantage));
  const bar = make("span", { class: `bar ${value >= 0 ? "good" : "bad"}`, "aria-hidden": "true" });
  bar.style.width = `${50 * share}%`;
  bar.style.left = value >= 0 ? "50%" : `${50 - 50 * share}%`;
  element.append(make("span", { class: "bar-box", "aria-hidden": "true" }, bar), make("span", { text: signed(value) }));
  return element;
}

// Selects a row of the list by its place in it.
function select(at) {
  if (list.rows.length === 0) return;
  list.at = Math.max(0, Math.min(list.rows.length - 1, at));
  state.row = keyOf(list.rows[list.at]);
  bringIntoSight(list.at);
  drawList();
  selectionChanged();
}

// From here the next place, in this direction, whose group is another.
function nextGroup(direction) {
  const isSame = (at) => data.step[list.rows[at]] === data.step[list.rows[list.at]] && data.position[list.rows[at]] === data.position[list.rows[list.at]];
  let at = list.at;
  while (at + direction >= 0 && at + direction < list.rows.length && isSame(at)) at += direction;
  return at;
}
