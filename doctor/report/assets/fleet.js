"use strict";
(function () {
  var words = document.getElementById("words");
  var verdict = document.getElementById("verdict");
  var rung = document.getElementById("rung");
  var shown = document.getElementById("shown");
  var rows = Array.prototype.slice.call(document.querySelectorAll("#hosts tbody tr"));
  var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  var versions = rows.map(function (row) { return row.getAttribute("data-has").toLowerCase(); });
  var waiting = 0;

  function matches(row, text, has, wanted, whole) {
    if (verdict.value && row.cells[1].textContent !== verdict.value) { return false; }
    if (rung.value) {
      var state = row.cells[Number(rung.value)].className;
      if (state !== "e" && state !== "w") { return false; }
    }
    if (whole.indexOf("=") > 0 && has.indexOf("|" + whole) >= 0) { return true; }
    return wanted.every(function (word) { return text.indexOf(word) >= 0; });
  }
  function apply() {
    var whole = words.value.toLowerCase().trim();
    var wanted = whole.split(/\s+/).filter(Boolean);
    var count = 0;
    rows.forEach(function (row, index) {
      var keep = matches(row, texts[index], versions[index], wanted, whole);
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
