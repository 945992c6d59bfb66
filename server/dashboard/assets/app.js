// The page asks GET /v1/activity/stream for what the server does, and draws it. It keeps no state that the server has.
'use strict';

const $ = (id) => document.getElementById(id);
const svgSpace = 'http://www.w3.org/2000/svg';

// make is an element with attributes, and with texts and elements in it.
function make(tag, attrs = {}, ...inside) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === true) e.setAttribute(name, '');
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...inside);
  return e;
}

function draw(tag, attrs = {}) {
  const e = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attrs)) e.setAttribute(name, value);
  return e;
}

// say puts text into e if it is another one, so that nothing is drawn, read aloud or deselected that has not changed.
function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const number = (n) => whole.format(n);
const compact = (n) => (n < 100000 ? whole.format(n) : short.format(n));
const rate = (n) => (n === 0 ? '0' : n < 10 ? n.toFixed(1) : compact(Math.round(n)));
const share = (part, all) => (all === 0 ? '–' : part === 0 ? '0 %' : part / all < 0.001 ? '< 0.1 %' : (100 * part / all).toFixed(part / all < 0.1 ? 1 : 0) + ' %');
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const timeOf = (us) => clock.format(new Date(us / 1000));

function inWords(ms) {
  if (ms <= 0) return 'now';
  if (ms < 1000) return `${ms} ms`;
  const s = Math.ceil(ms / 1000);
  if (s < 100) return `${s} s`;
  const m = Math.ceil(s / 60);
  if (m < 100) return `${m} min`;
  const h = Math.ceil(m / 60);
  return h < 72 ? `${h} h` : `${Math.ceil(h / 24)} days`;
}

// rows makes the elements in parent those of items, and keeps the ones that there are, with the focus in them.
function rows(parent, items, keyOf, create, update) {
  const active = document.activeElement;
  const known = new Map();
  for (const e of parent.children) known.set(e.dataset.key, e);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let e = known.get(key);
    if (e) known.delete(key);
    else {
      e = create(item);
      e.dataset.key = key;
    }
    if (e === place) place = place.nextElementSibling;
    else parent.insertBefore(e, place);
    update(e, item);
  }
  for (const e of known.values()) e.remove();
  if (active && active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
}

// ---- talking to the server

class Refused extends Error {
  constructor(status, body) {
    super((body && (body.detail || body.title)) || `the server answered with status ${status}`);
    this.status = status;
    this.code = body && body.code;
  }
}

async function ask(method, path, body) {
  const init = { method, headers: { Accept: 'application/json' }, cache: 'no-store', credentials: 'same-origin' };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const answer = await fetch(path, init);
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { value = null; }
  if (!answer.ok) {
    if (answer.status === 401) showLogin();
    throw new Refused(answer.status, value);
  }
  return value;
}

const may = { read: true, reset: true, admin: true };
let events = null, polling = 0, paused = false, last = null, begun = false;

function link(state, text) {
  if ($('link').dataset.state !== state) {
    $('link').dataset.state = state;
    if (state !== 'wait') tell(text);
  }
  say($('link'), text);
}

// tell has a screen reader say something, once.
function tell(text) { say($('said'), text); }

function showLogin() {
  stop();
  begun = false;
  $('main').hidden = true;
  $('logout').hidden = true;
  $('pause').hidden = true;
  if ($('login').hidden) {
    $('login').hidden = false;
    $('token').focus();
  }
  link('wait', 'not logged in');
}

function stop() {
  if (events) events.close();
  events = null;
  clearTimeout(polling);
}

// listen takes events, and where there are none asks every two seconds.
function listen() {
  stop();
  events = new EventSource('/v1/activity/stream');
  events.onmessage = (e) => {
    link('live', 'live');
    show(JSON.parse(e.data));
  };
  events.onerror = () => {
    const closed = events && events.readyState === EventSource.CLOSED;
    if (closed) {
      events = null;
      poll();
    } else link('down', 'no connection');
  };
}

async function poll() {
  clearTimeout(polling);
  if (paused) return;
  try {
    const a = await ask('GET', '/v1/activity');
    link('live', 'every 2 s');
    show(a);
  } catch (err) {
    if (err instanceof Refused && err.status === 401) return;
    link('down', err instanceof Refused && err.status < 500 ? err.message : 'no connection');
    if (err instanceof Refused && (err.status === 403 || err.status === 404)) trouble(err.message);
  }
  polling = setTimeout(poll, 2000);
}

function trouble(text) {
  begin();
  $('trouble').hidden = !text;
  say($('trouble'), text);
}

function begin() {
  if (begun) return;
  begun = true;
  $('main').hidden = false;
  $('login').hidden = true;
  $('pause').hidden = false;
}

async function start() {
  let session = null;
  try { session = await ask('GET', '/session'); } catch (err) { session = null; }
  if (session) {
    Object.assign(may, { read: session.read, reset: session.reset, admin: session.admin });
    $('logout').hidden = !(session.on && session.name);
    if (!session.read) {
      showLogin();
      if (session.name) say($('login-error'), `The token ${session.name} lacks the scope “read”.`);
      return;
    }
  }
  listen();
}

$('login-form').addEventListener('submit', async (e) => {
  e.preventDefault();
  say($('login-error'), '');
  try {
    await ask('POST', '/session', { token: $('token').value });
    $('token').value = '';
    await start();
    if ($('login').hidden || may.read) {
      $('login').hidden = true;
      $('main').focus();
    }
  } catch (err) {
    say($('login-error'), err.message);
  }
});

$('logout').addEventListener('click', async () => {
  stop();
  try { await ask('DELETE', '/session'); } catch (err) { say($('login-error'), err.message); }
  showLogin();
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  say($('pause'), paused ? 'Go on' : 'Pause');
  if (paused) {
    stop();
    link('wait', 'paused');
  } else listen();
});

// ---- what is shown

const perSecond = 5; // seconds that a rate is the mean of
const recentMean = (list) => list.slice(-perSecond).reduce((a, b) => a + b, 0) / perSecond;
const decided = (c) => c.allowed + c.refused + c.errors;

function show(a) {
  last = a;
  begin();
  $('trouble').hidden = true;
  say($('about'), `${a.version}, counting since ${timeOf(a.since_us)}`);
  showPulse(a);
  showLimits(a);
  showTop($('most-refused'), a.most_refused);
  showTop($('most-used'), a.most_used);
  showRecent(a);
  showStore(a.store);
  document.title = a.minute.refused ? `(${compact(a.minute.refused)} refused) ration` : 'ration';
}

function sum(limits, field) {
  const all = new Array(60).fill(0);
  for (const l of limits) l[field].forEach((n, i) => { all[i] += n; });
  return all;
}

function showPulse(a) {
  const allowed = sum(a.limits, 'allowed'), refused = sum(a.limits, 'refused'), errors = sum(a.limits, 'errors');
  const mean = recentMean(allowed) + recentMean(refused) + recentMean(errors);
  say($('f-rate'), rate(mean));
  say($('f-refused'), rate(recentMean(refused)));
  say($('f-share'), share(a.minute.refused, decided(a.minute)));
  say($('f-errors'), compact(a.minute.errors));
  say($('f-total'), compact(decided(a.totals)));
  bars($('chart'), allowed, refused.map((n, i) => n + errors[i]), 600, 96);
  $('chart').setAttribute('aria-label', `The last 60 seconds: ${number(a.minute.allowed)} allowed, ${number(a.minute.refused)} refused, ${number(a.minute.errors)} could not be told`);
}

// bars draws one column a second: the refused on top of the allowed.
function bars(svg, below, above, width, height) {
  const n = Math.max(below.length, 60), step = width / n, gap = step * 0.25;
  const most = Math.max(1, ...below.map((b, i) => b + above[i]));
  while (svg.childElementCount < 2 * n) svg.append(draw('rect', svg.childElementCount % 2 ? { class: 'over' } : {}));
  for (let i = 0; i < n; i++) {
    const high = (v) => (v ? Math.max(1.5, (v / most) * (height - 2)) : 0);
    const b = high(below[i] || 0), o = high(above[i] || 0);
    place(svg.children[2 * i], i * step + gap / 2, height - b, step - gap, b);
    place(svg.children[2 * i + 1], i * step + gap / 2, Math.max(0, height - b - o), step - gap, o);
  }
}

function place(rect, x, y, width, height) {
  const at = { x: x.toFixed(1), y: y.toFixed(1), width: width.toFixed(1), height: height.toFixed(1) };
  for (const [name, value] of Object.entries(at)) if (rect.getAttribute(name) !== value) rect.setAttribute(name, value);
}

let sort = { by: 'name', down: false };
const orders = {
  name: (a, b) => (a.name === '' ? 1 : b.name === '' ? -1 : a.name < b.name ? -1 : 1),
  rate: (a, b) => decided(a.minute) - decided(b.minute),
  refused: (a, b) => a.minute.refused - b.minute.refused,
  share: (a, b) => a.minute.refused / (decided(a.minute) || 1) - b.minute.refused / (decided(b.minute) || 1),
  total: (a, b) => decided(a.totals) - decided(b.totals),
};

for (const th of document.querySelectorAll('#limits th[data-sort]')) {
  th.firstElementChild.addEventListener('click', () => {
    const by = th.dataset.sort;
    sort = { by, down: sort.by === by ? !sort.down : by !== 'name' };
    for (const other of document.querySelectorAll('#limits th[data-sort]')) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', sort.down ? 'descending' : 'ascending');
    if (last) showLimits(last);
  });
}

const nameOf = (name) => name || 'others';

function showLimits(a) {
  const list = a.limits.filter((l) => l.name || decided(l.totals));
  list.sort((x, y) => (sort.down ? -1 : 1) * orders[sort.by](x, y) || orders.name(x, y));
  rows($('limits').tBodies[0], list, (l) => l.name, (l) => {
    const spark = draw('svg', { class: 'spark', viewBox: '0 0 180 26', 'aria-hidden': 'true' });
    return make('tr', {},
      make('th', { scope: 'row' }, make('span', { class: 'name' }, nameOf(l.name)), make('span', { class: 'text' })),
      wideCell(spark), make('td', { class: 'num' }), make('td', { class: 'num' }), make('td', { class: 'num wide' }), make('td', { class: 'num wide' }));
  }, (tr, l) => {
    const cells = tr.cells;
    say(cells[0].lastElementChild, l.name ? l.limit : 'limits given as text, and those that are not named here');
    bars(cells[1].firstElementChild, l.allowed, l.refused.map((n, i) => n + l.errors[i]), 180, 26);
    say(cells[2], rate(recentMean(l.allowed) + recentMean(l.refused) + recentMean(l.errors)));
    say(cells[3], rate(recentMean(l.refused)));
    cells[3].classList.toggle('accent', l.minute.refused > 0);
    say(cells[4], share(l.minute.refused, decided(l.minute)));
    say(cells[5], compact(decided(l.totals)));
  });
  $('limits').hidden = list.length === 0;
  $('limits-empty').hidden = list.length > 0;
  $('limits-more').hidden = a.limits_left_out === 0;
  say($('limits-more'), `${number(a.limits_left_out)} quieter limits are not shown.`);
}

function wideCell(e) { return make('td', { class: 'wide' }, e); }

// keyText is how a key is called here.
function keyText(w) {
  if (w.key) return w.key.length === 1 ? w.key[0] : JSON.stringify(w.key);
  if (w.shared) return 'everybody';
  if (w.key_base64) return 'base64 ' + w.key_base64.join(' ');
  return w.fingerprint.replace(/(.{4})(?=.)/g, '$1 ');
}

function whoButton(w) {
  const b = make('button', { type: 'button', class: 'who', title: 'Show this key' }, keyText(w));
  b.addEventListener('click', () => openKey(w));
  return b;
}

function showTop(ol, list) {
  const most = list.length ? list[0].count : 1;
  rows(ol, list.slice(0, 8), (t) => t.limit + ' ' + t.fingerprint, (t) => {
    const svg = draw('svg', { viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    svg.append(draw('rect', { height: 4 }));
    return make('li', {}, make('span', {}, whoButton(t), make('span', { class: 'at' }, nameOf(t.limit))), make('span', { class: 'count' }), svg);
  }, (li, t) => {
    const text = number(t.count) + (t.over ? ` (up to ${number(t.over)} fewer)` : '');
    say(li.children[1], text);
    li.lastElementChild.firstElementChild.setAttribute('width', (100 * t.count / most).toFixed(1));
  });
  ol.nextElementSibling.hidden = list.length > 0;
}

const outcomes = { allowed: 'allowed', refused: 'refused', error: 'no answer' };

function showRecent(a) {
  const list = a.recent.filter((e) => !$('only-refused').checked || e.outcome !== 'allowed').slice(0, 12);
  rows($('recent').tBodies[0], list, (e) => `${e.at_us} ${e.fingerprint} ${e.limit} ${e.outcome}`, (e) => {
    const use = e.outcome === 'error' ? 'the store did not tell'
      : e.size ? `${number(e.used)} of ${number(e.size)}` + (e.outcome !== 'refused' ? '' : e.never ? ', can never pass' : `, free in ${inWords(e.retry_after_ms)}`) : '';
    return make('tr', {},
      make('td', {}, timeOf(e.at_us)),
      make('td', {}, make('span', { class: 'outcome', 'data-how': e.outcome }, outcomes[e.outcome] + (e.degraded ? ', without the store' : ''))),
      make('td', { class: 'name' }, nameOf(e.limit)), make('td', {}, whoButton(e)),
      make('td', { class: 'num wide' }, number(e.cost)), make('td', { class: 'wide' }, use));
  }, () => {});
  $('recent').hidden = list.length === 0;
  $('recent-empty').hidden = list.length > 0;
  $('recent-more').hidden = a.recent_left_out === 0;
  say($('recent-more'), `A sample: the first few of each second. ${number(a.recent_left_out)} others are counted above only.`);
}

$('only-refused').addEventListener('change', () => { if (last) showRecent(last); });

const scopes = { process: 'this process’s alone', machine: 'shared by this machine', network: 'shared over the network' };

function showStore(s) {
  const up = $('s-up');
  say(up, s.up ? 'up' : `down since ${timeOf(s.since_us)}: ${s.detail}`);
  up.className = s.up ? 'state-good' : 'state-bad';
  say($('s-kind'), s.kind);
  say($('s-scope'), scopes[s.scope] || s.scope);
  say($('s-durable'), s.durable ? 'loses nothing answered' : 'may lose counts');
  say($('s-took'), s.took_us < 1000 ? `${number(s.took_us)} µs` : `${(s.took_us / 1000).toFixed(1)} ms`);
  const off = Math.round(s.ahead_us / 1000);
  say($('s-clock'), Math.abs(off) < 5 ? 'as the server’s' : `${number(Math.abs(off))} ms ${off > 0 ? 'ahead of' : 'behind'} the server’s`);
}

// ---- one key

let shown = null; // the key on show, as it is asked for

function keyAsked() {
  const text = $('key').value;
  let key = text;
  if (text.trim().startsWith('[')) {
    try {
      const list = JSON.parse(text);
      if (Array.isArray(list) && list.length && list.every((p) => typeof p === 'string')) key = list;
    } catch { key = text; } // a key that begins with a bracket
  }
  const asked = { key };
  if ($('group').value) asked.group = $('group').value;
  return asked;
}

$('key-form').addEventListener('submit', (e) => {
  e.preventDefault();
  const asked = keyAsked();
  showKey(asked, Array.isArray(asked.key) ? asked.key.join(' / ') : asked.key, true);
});

function openKey(w) {
  if (w.key) {
    $('key').value = w.key.length === 1 && !w.key[0].startsWith('[') ? w.key[0] : JSON.stringify(w.key);
    $('group').value = w.group || '';
    showKey(keyAsked(), keyText(w), true);
    return;
  }
  showKey({ fingerprint: w.fingerprint }, keyText(w), true);
}

async function showKey(asked, name, focus) {
  say($('key-error'), '');
  let answer;
  try {
    answer = await ask('POST', '/v1/activity/key', asked);
  } catch (err) {
    if (focus || err instanceof Refused) say($('key-error'), err.message);
    return;
  }
  if (!shown || shown.asked !== asked) $('key-limits').tBodies[0].replaceChildren(); // another key has other buttons
  shown = { asked, name };
  $('key-state').hidden = false;
  const h = $('key-name');
  h.replaceChildren(name + ' ', make('span', { class: 'tag', title: 'fingerprint' }, keyText({ fingerprint: answer.fingerprint })));
  rows($('key-limits').tBodies[0], answer.limits, (l) => l.name, (l) => {
    const svg = draw('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    svg.append(draw('rect', { class: 'room', width: 100, height: 8 }), draw('rect', { class: 'fill', height: 8 }));
    const act = make('td', { class: 'act' });
    if (may.reset) act.append(keyButton('Reset', l.name, () => confirmReset(l.name)));
    if (may.admin && asked.key !== undefined) act.append(keyButton('Override', l.name, () => editOverride(l.name)));
    return make('tr', {}, make('th', { scope: 'row' }, make('span', { class: 'name' }, l.name), make('span', { class: 'text' })),
      make('td', {}, make('div', { class: 'use' }, svg, make('span'))), make('td', { class: 'num' }), make('td', { class: 'wide' }), act);
  }, (tr, l) => {
    const [, use, left, next] = tr.cells;
    say(tr.cells[0].lastElementChild, l.text && l.text !== l.configured ? `${l.text} instead of ${l.configured}` : l.configured);
    tr.dataset.limit = l.text || l.configured;
    const fill = use.firstElementChild.firstElementChild.lastElementChild;
    fill.setAttribute('class', l.allowed ? 'fill' : 'full');
    fill.setAttribute('width', l.limit ? Math.min(100, 100 * l.used / l.limit).toFixed(1) : 0);
    say(use.firstElementChild.lastElementChild, l.error ? l.error : `${number(l.used)} of ${number(l.limit)}`);
    say(left, l.error ? '–' : number(l.remaining));
    say(next, l.error ? '–' : l.allowed ? 'now' : l.never ? 'never' : `in ${inWords(l.retry_after_ms)}`);
  });
  $('key-limits').hidden = answer.limits.length === 0;
  $('key-empty').hidden = answer.limits.length > 0;
  if (focus) {
    h.focus();
    h.scrollIntoView({ block: 'nearest' });
  }
}

function keyButton(text, limit, act) {
  const b = make('button', { type: 'button' }, text, make('span', { class: 'visually-hidden' }, ' ' + limit));
  b.addEventListener('click', act);
  return b;
}

// The key on show is looked at again, as long as somebody sees it.
setInterval(() => {
  if (shown && begun && !paused && !document.hidden && !document.querySelector('dialog[open]')) showKey(shown.asked, shown.name, false);
}, 3000);

function confirmReset(limit) {
  const { asked, name } = shown;
  say($('confirm-h'), `Reset ${limit}`);
  say($('confirm-text'), `What was counted for ${name} under ${limit} is forgotten. Its next use finds the limit unused.`);
  const d = $('confirm');
  d.returnValue = 'no';
  d.onclose = async () => {
    if (d.returnValue !== 'yes') return;
    try {
      await ask('POST', '/v1/reset', { ...asked, limit });
      tell(`${limit} was reset`);
      await showKey(asked, name, false);
    } catch (err) {
      say($('key-error'), err.message);
    }
  };
  d.showModal();
}

function editOverride(limit) {
  const { asked, name } = shown;
  const row = [...$('key-limits').tBodies[0].rows].find((tr) => tr.dataset.key === limit);
  say($('override-h'), `Other numbers of ${limit}`);
  say($('override-text'), `For ${name} alone, of the same kind. Every server on this store goes by it within seconds.`);
  say($('override-error'), '');
  $('override-limit').value = row ? row.dataset.limit : '';
  $('override-note').value = '';
  const d = $('override');
  const done = async (text) => {
    tell(text);
    d.close();
    await showKey(asked, name, false);
  };
  $('override-form').onsubmit = async (e) => {
    e.preventDefault();
    const body = { ...asked, limit, override: $('override-limit').value.trim() };
    if ($('override-life').value) body.ttl_ms = Number($('override-life').value);
    if ($('override-note').value) body.note = $('override-note').value;
    try {
      await ask('POST', '/v1/overrides/set', body);
      await done(`${limit} has other numbers for this key now`);
    } catch (err) {
      say($('override-error'), err.message);
    }
  };
  $('override-remove').onclick = async () => {
    try {
      const a = await ask('POST', '/v1/overrides/remove', { ...asked, limit });
      await done(a.removed ? 'The override was removed' : 'There was no override');
    } catch (err) {
      say($('override-error'), err.message);
    }
  };
  $('override-close').onclick = () => d.close();
  d.showModal();
}

// ---- reservations

async function showHeld() {
  let a;
  try { a = await ask('GET', '/v1/reservations?max=20'); } catch (err) {
    $('held').hidden = true;
    $('held-empty').hidden = false;
    say($('held-empty'), err instanceof Refused ? err.message : 'The server does not answer.');
    return;
  }
  rows($('held').tBodies[0], a.reservations, (r) => r.id || r.id_base64, (r) => make('tr', {},
    make('th', { scope: 'row' }, make('span', { class: 'name' }, r.id || r.id_base64), make('span', { class: 'text' }, `since ${timeOf(r.at_us)}`)),
    make('td'), make('td', { class: 'num' })), (tr, r) => {
    say(tr.cells[1], r.charges.map((c) => `${number(c.charged)} of ${nameOf(c.name)}`).join(', '));
    say(tr.cells[2], timeOf(r.expires_at_us));
  });
  $('held').hidden = a.reservations.length === 0;
  $('held-empty').hidden = a.reservations.length > 0;
  say($('held-empty'), 'Nothing is held.');
  $('held-more').hidden = !a.more;
  say($('held-more'), 'There are more; “ration reservations” lists them all.');
}

setInterval(() => { if (begun && !paused && !document.hidden) showHeld(); }, 5000);

start().then(() => { if (may.read) showHeld(); });
