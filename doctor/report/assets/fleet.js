"use strict";
(function () {
  var words = document.getElementById("words");
  var verdict = document.getElementById("verdict");
  var rung = document.getElementById("rung");
  var shown = document.getElementById("shown");
  var rows = Array.prototype.slice.call(document.querySelectorAll("#hosts tbody tr"));
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  var waiting = 0;

  function matches(row, text, wanted) {
    if (verdict.value && row.cells[1].textContent !== verdict.value) { return false; }
    if (rung.value) {
      var state = row.cells[Number(rung.value)].className;
      if (state !== "e" && state !== "w") { return false; }
    }
    return wanted.every(function (word) { return text.indexOf(word) >= 0; });
  }
  function apply() {
    var wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    var count = 0;
    rows.forEach(function (row, index) {
      var keep = matches(row, texts[index], wanted);
      row.hidden = !keep;
      count += keep ? 1 : 0;
    });
    shown.textContent = count + " of " + rows.length + " hosts";
  }
  function soon() { clearTimeout(waiting); waiting = setTimeout(apply, 120); }

  words.addEventListener("input", soon);
  verdict.addEventListener("change", apply);
  rung.addEventListener("change", apply);
  document.querySelectorAll("[data-find]").forEach(function (button) {
    button.addEventListener("click", function () {
      words.value = button.getAttribute("data-find");
      verdict.value = "";
      rung.value = "";
      apply();
      document.getElementById("hosts").scrollIntoView();
      words.focus();
    });
  });
  document.querySelector(".filters").hidden = false;
  apply();
})();
