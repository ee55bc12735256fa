"use strict";
(function () {
  function copied(button, done) {
    button.textContent = done ? "Copied" : "Select it";
    setTimeout(function () { button.textContent = "Copy"; }, 2000);
  }
  function select(node) {
    var range = document.createRange();
    range.selectNodeContents(node);
    var selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  }
  document.querySelectorAll(".command").forEach(function (box) {
    var pre = box.querySelector("pre");
    var lines = Array.prototype.map.call(pre.querySelectorAll(".line"), function (line) {
      return line.textContent;
    });
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", function () {
      if (!navigator.clipboard) { select(pre); copied(button, false); return; }
      navigator.clipboard.writeText(lines.join("\n")).then(
        function () { copied(button, true); },
        function () { select(pre); copied(button, false); }
      );
    });
    box.appendChild(button);
    box.classList.add("can-copy");
  });
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (item) { item.open = true; });
  });
})();
