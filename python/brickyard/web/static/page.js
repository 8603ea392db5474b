// What every page has: requests with the session's token, words for screen readers, the theme, the state of the arrays.
'use strict';
const Brickyard = (() => {
  const csrf = document.querySelector('meta[name=csrf]');

  // With `isLook` nobody asks but the page itself, which keeps no session open.
  async function ask(path, body, isLook) {
    const options = { headers: { Accept: 'application/json' }, credentials: 'same-origin' };
    if (isLook) options.headers['X-Brickyard-Look'] = '1';
    if (body !== undefined) {
      options.method = 'POST';
      options.headers['Content-Type'] = 'application/json';
      options.headers['X-CSRF-Token'] = csrf ? csrf.content : '';
      options.body = JSON.stringify(body);
    }
    let answer;
    try { answer = await fetch(path, options); } catch (error) { throw new Error('the server does not answer'); }
    const document_ = await answer.json().catch(() => ({}));
    if (answer.status === 401) { location.assign('/login'); throw new Error('the session has ended'); }
    if (!answer.ok) throw new Error(document_.error || `the server answered ${answer.status}`);
    return document_;
  }

  function say(text, isError) {
    const place = document.getElementById('say');
    place.textContent = text;
    place.classList.toggle('error', Boolean(isError));
    place.classList.toggle('shown', Boolean(text));
    clearTimeout(say.timer);
    if (text && !isError) say.timer = setTimeout(() => say(''), 8000);
  }

  function make(tag, attributes, ...parts) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === 'class') made.className = value;
      else made.setAttribute(name, value);
    }
    made.append(...parts);
    return made;
  }

  const digits = value => {
    if (!isFinite(value)) return '–';
    const size = Math.abs(value);
    if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en');
    return value.toPrecision(3);
  };

  function time(ns) {
    if (ns === null || ns === undefined) return '–';
    if (ns >= 1e9) return `${digits(ns / 1e9)} s`;
    if (ns >= 1e6) return `${digits(ns / 1e6)} ms`;
    if (ns >= 1e3) return `${digits(ns / 1e3)} µs`;
    return `${Math.round(ns)} ns`;
  }

  function span(seconds) {
    const whole = Math.round(seconds);
    if (whole < 90) return `${whole} s`;
    if (whole < 5400) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    return `${Math.floor(whole / 3600)} h ${Math.round(whole % 3600 / 60)} min`;
  }

  function size(bytes) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let place = 0;
    while (bytes >= 1024 && place < units.length - 1) { bytes /= 1024; place += 1; }
    return `${digits(bytes)} ${units[place]}`;
  }

  function showError(place, text) {
    place.textContent = text;
    place.hidden = !text;
  }

  const names = { error: 'Error', warning: 'Warning', note: 'Note', well: 'Well' };
  function showStanding(standing) {
    const place = document.getElementById('standing');
    if (!place || !standing) return;
    place.className = `standing ${standing.severity}`;
    place.querySelector('strong').textContent = `${names[standing.severity]}:`;
    place.querySelector('span').textContent = standing.text;
    let more = place.querySelector('.more');
    if (!more) { more = make('span', { class: 'more' }); place.querySelector('a').append(' ', more); }
    more.textContent = standing.count > 1 ? `(1 of ${standing.count})` : '';
  }

  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    if (button) button.addEventListener('click', () => {
      const root = document.documentElement;
      const isDark = root.dataset.theme ? root.dataset.theme === 'dark'
        : matchMedia('(prefers-color-scheme: dark)').matches;
      root.dataset.theme = isDark ? 'light' : 'dark';
      try { localStorage.setItem('brickyard-theme', root.dataset.theme); } catch (error) { /* it lasts for this page */ }
      document.dispatchEvent(new Event('theme'));
    });
    // Pages without a stream of events ask now and then how the arrays stand.
    if (csrf && !document.getElementById('runs')) setInterval(() => {
      if (!document.hidden) ask('/api/alarms', undefined, true).then(told => showStanding(told.standing)).catch(() => {});
    }, 15000);
  });

  return { ask, say, make, digits, time, span, size, showError, showStanding };
})();
