// Rankings of a query's documents, and why one stands above another: no page is needed for it.

const MOST_BARS = 8; // features of an explanation; the others are one bar
const NDCG_AT = 10;

// Rankings: of an entrant as it was saved, of the labels, or of a model that was turned by hand

function savedRanking(query, index) {
  const { base, unit, scores } = query.entrants[index];
  return {
    ranks: query.ranks[index],
    scores: scores.map((score) => base + unit * score),
    value: query.values[index],
  };
}

function idealRanking(query) {
  return { ranks: ranksOf(query.labels), scores: query.labels, value: null };
}

function turnedRanking(data, query, entrant) {
  const saved = savedRanking(query, entrant.index);
  const scores = saved.scores.map(
    (score, document) => score + changeOf(data, query, entrant, document),
  );
  return { ranks: ranksOf(scores), scores, value: ndcg(query.labels, scores, data.grades) };
}

function ranksOf(scores) {
  const order = scores.map((_, document) => document).sort((a, b) => scores[b] - scores[a]);
  const ranks = new Array(scores.length);
  order.forEach((document, place) => (ranks[document] = place + 1));
  return ranks;
}

// NDCG of documents in the order of their scores; tied ones share their gains evenly.
function ndcg(labels, scores, grades) {
  if (!labels || grades.low < 0) return null;
  const gains = labels.map((label) => (grades.exp2 ? 2 ** label - 1 : label));
  const order = scores.map((_, document) => document).sort((a, b) => scores[b] - scores[a]);
  const ranked = [];
  for (let begin = 0, end; begin < order.length; begin = end) {
    end = begin + 1;
    while (end < order.length && scores[order[end]] === scores[order[begin]]) end += 1;
    const tied = order.slice(begin, end).map((document) => gains[document]);
    ranked.push(...tied.fill(tied.reduce((sum, gain) => sum + gain, 0) / tied.length));
  }
  const best = discounted([...gains].sort((a, b) => b - a));
  return best > 0 ? discounted(ranked) / best : null;
}

function discounted(gains) {
  return gains.slice(0, NDCG_AT).reduce((sum, gain, place) => sum + gain / Math.log2(place + 2), 0);
}

// What a turned model adds to the score of a document, beside what the saved one gives it.
function changeOf(data, query, entrant, document) {
  return query.features.reduce((sum, feature, place) => {
    const turn = entrant.turns.get(data.features[feature]);
    return turn ? sum + changeByFeature(query, entrant, place, document, turn) : sum;
  }, 0);
}

function changeByFeature(query, entrant, place, document, turn) {
  const { step, parts } = query.entrants[entrant.index];
  const value = query.cells[place][document];
  return (turn.factor - 1) * step * parts[place][document] + interpolate(turn, value);
}

// Straight lines between the points that were moved, constant beyond them, nothing if missing.
function interpolate({ handles, added }, value) {
  if (typeof value !== "number" || !handles.length) return 0;
  if (value <= handles[0]) return added[0];
  const next = handles.findIndex((handle) => handle >= value);
  if (next < 0) return added[added.length - 1];
  const share = (value - handles[next - 1]) / (handles[next] - handles[next - 1]);
  return added[next - 1] + share * (added[next] - added[next - 1]);
}

// Explanations

// What each feature adds to the score of one document less that of another; null if unknown.
function differences(data, query, entrant, above, below) {
  if (entrant.kind === "ideal" || !query.entrants[entrant.index].parts) return null;
  const { step, parts } = query.entrants[entrant.index];
  const bars = query.features.map((feature, place) => {
    let added = step * (parts[place][above] - parts[place][below]);
    const turn = entrant.turns && entrant.turns.get(data.features[feature]);
    if (turn) {
      added += changeByFeature(query, entrant, place, above, turn);
      added -= changeByFeature(query, entrant, place, below, turn);
    }
    const [one, other] = [query.cells[place][above], query.cells[place][below]];
    return { name: data.features[feature], above: one, below: other, added };
  });
  const { scores } = entrant.ranking(query);
  const total = scores[above] - scores[below];
  bars.sort((a, b) => Math.abs(b.added) - Math.abs(a.added));
  const shown = bars.slice(0, MOST_BARS).filter((bar) => bar.added !== 0);
  const rest = total - shown.reduce((sum, bar) => sum + bar.added, 0);
  return { bars: shown, rest: Math.abs(rest) > 2 * step * bars.length ? rest : 0, total };
}

// Two documents whose order matters most of those on which the rankings disagree; of rankings that
// are alike, on which they and the labels do, or else the first two.
function tellingPair(query, left, right) {
  const found = disagreement(query, left.ranks, right.ranks)
    || (query.labels && disagreement(query, left.ranks, idealRanking(query).ranks));
  if (found) return found;
  const order = [...left.ranks.keys()].sort((a, b) => left.ranks[a] - left.ranks[b]);
  return order.slice(0, 2);
}

function disagreement(query, before, after) {
  const weight = (rank) => 1 / Math.log2(rank + 1);
  const gap = (ranks, one, other) => weight(ranks[one]) - weight(ranks[other]);
  let found = null;
  let most = 0;
  for (let one = 0; one < query.rows.length; one += 1) {
    for (let other = 0; other < one; other += 1) {
      const [first, second] = [gap(before, one, other), gap(after, one, other)];
      const grades = query.labels ? query.labels[one] - query.labels[other] : 1;
      const matter = first * second < 0 ? Math.abs((first - second) * grades) : 0;
      if (matter > most) {
        most = matter;
        found = first > 0 ? [one, other] : [other, one];
      }
    }
  }
  return found;
}
