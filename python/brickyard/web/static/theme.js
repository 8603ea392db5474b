// Before anything is drawn: light or dark, as it was chosen last, else as the system has it.
(function () {
  'use strict';
  var chosen = null;
  try { chosen = localStorage.getItem('brickyard-theme'); } catch (error) { /* storage may be off */ }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
