// A token behind # is in no request: it is taken from the address, which then forgets it.
'use strict';
(() => {
  function take() {
    const token = decodeURIComponent(location.hash.slice(1));
    if (!/^[!-~]{32,500}$/.test(token)) return;
    history.replaceState(null, '', '/login');
    document.getElementById('token').value = token;
    document.getElementById('login').submit();
  }
  take();
  window.addEventListener('hashchange', take); // the address was pasted into a tab that has this page already
})();
