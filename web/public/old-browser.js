// Says in plain words that the page's program did not start. A classic script in ECMAScript 5, so that every browser reads it: old ones do
// not know modules, or stop at their syntax, and would show "Connecting" for ever.
(function () {
  "use strict";

  var reason = "";

  // Runs once all scripts have run or failed. The program sets `window.nearlight` when it has started.
  function check() {
    if (window.nearlight) return;
    window.nearlight = { state: "unsupported" };
    document.body.setAttribute("data-state", "unsupported");
    say("status", "Cannot start", "span");
    say("notice-title", "This browser cannot run the page");
    say(
      "notice-text",
      (knowsModules() ? "The page's program did not start" + (reason ? ": " + reason : "") + "." : "It is too old for the page's program.") +
        " Use a current version of Chrome, Edge, Firefox or Safari, or the browser of a headset; if it is one, reload the page."
    );
    var notice = document.getElementById("notice");
    if (notice) notice.removeAttribute("hidden");
  }

  function knowsModules() {
    return "noModule" in document.createElement("script");
  }

  function say(id, words, tag) {
    var target = document.getElementById(id);
    if (target && tag) target = target.getElementsByTagName(tag)[0];
    if (!target) return;
    while (target.firstChild) target.removeChild(target.firstChild);
    target.appendChild(document.createTextNode(words));
  }

  function onError(event) {
    var source = event.target || event.srcElement;
    if (event.message) reason = reason || event.message;
    else if (source && source.src) reason = reason || source.src.split("/").pop() + " cannot be loaded";
  }

  if (window.addEventListener) {
    // A file that does not load reports to its element alone, on the way down.
    window.addEventListener("error", onError, true);
    window.addEventListener("load", check, false);
  } else {
    window.attachEvent("onload", check);
  }
})();
