// One run: its course to zoom into, the pictures of its report, its note, and pinning it.
'use strict';
(() => {
  const { ask, say, make } = Brickyard;
  const head = document.getElementById('run'), run = Number(head.dataset.run);

  async function draw() {
    const place = document.querySelector('.charts');
    if (!place) return;
    const board = new Charts.Board(place.closest('section'));
    try { board.reset((await ask(`/api/runs/${run}/course`)).moments); } catch (error) { say(error.message, true); }
  }

  async function pictures() {
    const place = document.getElementById('pictures');
    if (!place) return;
    const status = place.querySelector('[role=status]');
    try {
      const told = await ask(`/api/runs/${run}/pictures`);
      for (const one of told.pictures) {
        const image = make('img', { src: one.url, alt: `${one.title}. ${one.caption}`, loading: 'lazy' });
        const link = make('a', { href: one.url, target: '_blank', rel: 'noopener', 'aria-label': `${one.title} in full size` }, image);
        place.append(make('figure', { class: 'picture' }, make('figcaption', {}, `${one.title}. ${one.caption}`), link));
      }
      status.remove();
    } catch (error) { status.textContent = error.message; }
  }

  const note = document.getElementById('annotate');
  if (note) note.addEventListener('submit', async event => {
    event.preventDefault();
    const labels = document.getElementById('labels').value.split(',').map(word => word.trim()).filter(Boolean);
    try {
      const kept = await ask(`/api/runs/${run}/annotation`,
        { note: document.getElementById('note').value, labels, seen: Number(note.dataset.seen) });
      note.dataset.seen = kept.number;
      say('Kept.');
    } catch (error) { say(error.message, true); }
  });
  const thresholds = document.getElementById('thresholds');
  if (thresholds) thresholds.addEventListener('submit', async event => {
    event.preventDefault();
    const problem = document.getElementById('thresholds-error');
    try {
      await ask('/api/thresholds', { profile: thresholds.dataset.profile, require: document.getElementById('require').value.split('\n') });
      location.reload();
    } catch (error) { Brickyard.showError(problem, error.message); }
  });
  const pin = document.getElementById('pin');
  if (pin) pin.addEventListener('submit', async event => {
    event.preventDefault();
    try {
      await ask('/api/baselines', { name: document.getElementById('baseline').value, runs: [run] });
      say('This run is a baseline now.');
    } catch (error) { say(error.message, true); }
  });
  if (head.dataset.draws) { draw(); pictures(); }
})();
