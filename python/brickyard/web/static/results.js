// Checked runs as short addresses: before=1,2&after=3.
'use strict';
(() => {
  const form = document.getElementById('choose');
  if (!form) return;
  const picked = name => [...form.querySelectorAll(`input[name=${name}]:checked`)].map(box => box.value).join(',');
  form.addEventListener('submit', event => {
    event.preventDefault();
    const before = picked('before'), after = picked('after');
    if (event.submitter && event.submitter.id === 'csv') {
      const runs = [before, after].filter(Boolean).join(',');
      if (!runs) { Brickyard.say('Choose runs first.', true); return; }
      location.assign(`/download/csv?runs=${runs}`);
      return;
    }
    if (!before || !after) { Brickyard.say('Choose runs for before and for after.', true); return; }
    location.assign(`/compare?before=${before}&after=${after}`);
  });
})();
