// Completions as tokens with a colour each.

const SCALES = {
  pull: { name: "advantage × ratio", low: "lowers the probability", high: "raises it" },
  entropy: { name: "entropy", low: "0 nats: certain", high: "2 nats or more" },
  surprise: { name: "−log p", low: "0 nats: expected", high: "6 nats or more: a surprise" },
};

// The tokens of a completion: text and numbers, those that are parts of one character together.
function tokensOf(row, content) {
  const { values, text } = content;
  if (!values.cuts) return null;
  const tokens = [];
  let number = 0;
  let start = 0;
  let length = 0;
  let parts = 0;
  for (let i = 0; i < values.cuts.length; i += 1) {
    const level = levelOf(values.cuts.charCodeAt(i));
    length += level;
    if (level === HIGHEST) continue;
    parts += 1;
    if (length > 0) {
      const scored = spansAt(values, number - parts + 1, number);
      tokens.push({ text: text.slice(start, start + length), parts, scored, ...numbersOf(row, values, number) });
      start += length;
      parts = 0;
    }
    number += 1;
    length = 0;
  }
  return tokens;
}

// The spans that rewards scored and that hold some of the tokens from first to last.
function spansAt(values, first, last) {
  return Object.entries(values.spans ?? {}).flatMap(([name, spans]) => spans
    .filter(([start, end]) => start <= last && end > first)
    .map(([start, end, score]) => ({ name, start, end, score, isEnd: end - 1 <= last })));
}

function numbersOf(row, values, number) {
  const at = (name) => (values[name] ? levelOf(values[name].charCodeAt(number)) : -1);
  const above = (name, most) => (at(name) < 0 ? null : most * (at(name) / HIGHEST) ** 3);
  const around = (name, most) => (at(name) < 0 ? null : most * ((at(name) - MIDDLE) / MIDDLE) ** 3);
  const logRatio = around("ratio", data.scales.logRatio);
  const ratio = logRatio === null ? null : Math.exp(logRatio);
  const advantage = values.advantage ? around("advantage", values.most) : data.advantage[row];
  return {
    surprise: above("surprise", data.scales.nats),
    entropy: above("entropy", data.scales.entropy),
    ratio,
    pull: ratio === null || advantage === null ? null : advantage * ratio,
  };
}

// Colour of a token: which, and how much of it from 0 to 1; null for none.
function colourOf(token, by) {
  const value = by === "none" ? null : token[by];
  if (value === null || value === undefined) return null;
  if (by === "pull") return { name: value >= 0 ? "good" : "bad", share: Math.min(1, Math.abs(value) / (1.5 * data.largeAdvantage)) };
  return { name: by === "entropy" ? "neutral" : "bad", share: Math.min(1, Math.sqrt(value / (by === "entropy" ? 2 : 6))) };
}

function fillWithTokens(element, row, content) {
  const tokens = tokensOf(row, content);
  if (tokens === null) {
    element.textContent = content.text;
    return null;
  }
  const spans = tokens.map((token) => {
    const span = document.createElement("span");
    span.textContent = token.text;
    const colour = colourOf(token, state.colour);
    if (colour !== null && colour.share > 0.02) {
      span.style.backgroundColor = `rgba(var(--${colour.name}-rgb), ${(0.5 * colour.share).toFixed(3)})`;
    }
    drawSpans(span, token.scored);
    return span;
  });
  element.replaceChildren(...spans);
  return tokens;
}

// A line under a token of a scored span, and the score behind its last one.
function drawSpans(element, scored) {
  if (scored.length === 0) return;
  element.classList.add("scored", scored[0].score > 0 ? "is-good" : "is-bad");
  const ended = scored.filter((one) => one.isEnd);
  if (ended.length > 0) element.dataset.score = ended.map((one) => shown(one.score)).join(" ");
}

function describeToken(token, number) {
  const parts = [`token ${number + 1}: ${JSON.stringify(token.text)}`];
  if (token.parts > 1) parts.push(`${token.parts} tokens of one character`);
  if (token.surprise !== null) parts.push(`p ≈ ${Math.exp(-token.surprise).toPrecision(2)} (−log p ≈ ${token.surprise.toPrecision(2)})`);
  if (token.entropy !== null) parts.push(`entropy ≈ ${token.entropy.toPrecision(2)} nats`);
  if (token.ratio !== null) parts.push(`ratio ≈ ${token.ratio.toPrecision(3)}`);
  if (token.pull !== null) parts.push(`advantage × ratio ≈ ${signed(token.pull)}`);
  for (const { name, start, end, score } of token.scored) parts.push(`${name}: ${shown(score)} for the tokens ${start + 1} to ${end}`);
  if (token.ratio === null) parts.push("not forwarded: no ratio, no entropy");
  return parts.join(" · ");
}

// A pointer or the arrow keys tell one token after the other.
function tellTokens(element, tokens) {
  const tell = (number) => {
    element.querySelector(".current")?.classList.remove("current");
    element.children[number].classList.add("current");
    element.dataset.current = number;
    byId("readout").textContent = describeToken(tokens[number], number);
  };
  element.addEventListener("mouseover", (event) => {
    const number = [...element.children].indexOf(event.target);
    if (number >= 0) tell(number);
  });
  element.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const now = element.dataset.current === undefined ? (move > 0 ? -1 : tokens.length) : Number(element.dataset.current);
    const next = Math.max(0, Math.min(tokens.length - 1, now + move));
    tell(next);
    element.children[next].scrollIntoView({ block: "nearest" });
  });
}

function drawLegend(content) {
  drawScale(content);
  if (content.values.spans && content.values.cuts && state.tab !== "steps") {
    byId("legend").append(" Underlined: parts that a reward scored, each with its score behind it.");
  }
}

function drawScale(content) {
  const scale = SCALES[state.colour];
  const legend = byId("legend");
  if (!scale || !content.values.cuts || state.tab === "steps") {
    legend.replaceChildren();
    return;
  }
  const lacks = state.colour !== "surprise" && !content.values.ratio;
  if (lacks && state.tab === "one") {
    legend.replaceChildren("No colours: without an advantage it was not forwarded, so it has no ratio and no entropy.");
    return;
  }
  const bar = make("span", { class: `scale scale-${state.colour}`, "aria-hidden": "true" });
  legend.replaceChildren(`${scale.low} `, bar, ` ${scale.high}`);
}
