"""What notes tell of a service that runs: slow at first, idle, poor answers, memory not free."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Workload, seen

_SPAN = r"[^;\n]{0,60}?"
_LONG = r"(?:slow\w{0,4}|long(?:er)?|minutes?|seconds?|\d ?(?:s|sec|secs|min|mins|m)\b)"
_FEW = r"(?:few |couple of |two |three |\d{1,3} )?"
_ASKED = (
    r"(?:requests?|answers?|calls?|inferences?|prompts?|responses?|generations?|quer(?:y|ies)|"
    r"messages?|runs?|images?|completions?|replies|reply)\b"
)
_ALL_OF_IT = r"(?:whole|entire|full|same|complete|all of the) "
_TEXT = r"(?:prompts?|conversations?|histor(?:y|ies)|contexts?|prefix(?:es)?|chats?)\b"
_OUTPUT = (
    r"\b(?:answers?|outputs?|responses?|results?|quality|accuracy|scores?|generations?|"
    r"completions?|translations?|replies)\b"
)
_POOR = (
    r"(?:poor\w{0,2}|worse\w{0,3}|bad(?:ly)?|drops?|falls?|fell|dropped|degrad\w{1,4}|lower|"
    r"repeat\w{0,5}|decline\w{0,2}|wrong)\b"
)
_UNIT = r"(?:instance|server|container|job|process|service|engine|copy|run|pod|worker|vllm|ollama)"
_HERE = (
    r"(?:(?:the |this )?same (?:machine|host|node|computer|box|port)|this (?:machine|host|node)|"
    r"(?:on )?one (?:machine|host|node)|host network|network[= ]host|"
    r"still (?:runs|running|up|alive))"
)
_FEWER = r"(?:one|two|four|1|2|4|a single|single|fewer|tp ?=? ?[12]|layer[- ]split|split by layer)"

# Only statements of which a maintainer would ask no more than which setting is behind it.
_SAID = {
    "slow_at_first": rf"\bfirst {_FEW}{_ASKED}{_SPAN}\b{_LONG}|"
    rf"\b(?:each|every|the|a|after a) (?:cold |first |server |pod |engine )?(?:start(?:-?up)?|"
    rf"restart|boot)\b{_SPAN}\b(?:takes?|took|needs?|lasts?)\b{_SPAN}\bminutes?\b|"
    rf"\b(?:takes?|took|needs?) [^;\n]{{0,30}}?minutes? (?:to start|until|before) "
    rf"[^;\n]{{0,20}}?(?:ready|answers?|serves?|responds?|up\b)|"
    rf"\b(?:cold[- ]start|warm(?:ing)?[- ]?up)\w{{0,3}}\b{_SPAN}\b{_LONG}|"
    rf"\bafter (?:a |an |some |long )?(?:pause|idle\w{{0,3}}|break|inactivity|quiet)\b{_SPAN}"
    rf"\b{_LONG}|\bfirst (?:answer|request|call|reply) after\b",
    "computed_again": rf"\b(?:each|every|with each|with every) (?:new |further |next )?turn\b"
    rf"{_SPAN}\b(?:slower|longer|again)\b|\bslower (?:with|on|at|in) (?:each|every) (?:new )?"
    r"turn\b|"
    rf"\b{_ALL_OF_IT}{_TEXT}{_SPAN}\b(?:again|re-?(?:process|comput|evaluat|read)\w{{0,4}}|"
    rf"prefilled (?:each|every))\b|"
    rf"\bre-?(?:process|comput|evaluat)\w{{1,4}} {_SPAN}{_ALL_OF_IT}{_TEXT}|"
    r"\bcached[-_ ]tokens?\b[^;\n]{0,20}?\b(?:0|zero|none)\b(?!\.)|"
    r"\b(?:prefix|prompt|radix|kv)?[-_ ]?cache hits?(?: rate)?\b[^;\n]{0,20}?"
    r"\b(?:0(?:\.0{1,3})?(?![.\d])|zero)|"
    r"\b(?:prefix|prompt|kv|radix)[- ]cache (?:is |was )?(?:never|not) (?:hit|used|re-?used)\b|"
    rf"\bsame {_SPAN}{_TEXT}{_SPAN}\b(?:ttft|time to first token|prefill|prompt processing)\b"
    rf"{_SPAN}\b(?:not|same|doesn't|never)\b|"
    r"\b(?:ttft|time to first token) (?:grows|rises|increases) (?:with|on) (?:each|every) turn\b",
    "device_idle": r"\bgpus?\b(?![^;\n]{0,30}\b(?:memory|vram))[^;\n]{0,30}?(?<![\d.])"
    r"(?:\d|[1-4]\d)(?: ?(?:-|to|and) ?[1-5]?\d)? ?(?:%|percent\b)|"
    r"\bgpus? (?:is |are |sits? |stays? )?(?:mostly |often |largely |nearly |almost |half )?idle\b|"
    r"\b(?:low|poor) gpu (?:utili[sz]ation|usage|load)\b|"
    r"\bthroughput (?:does not|doesn't|stays|never|no longer) [^;\n]{0,30}?(?:clients|users|"
    r"concurren\w{1,4}|requests|load)\b",
    "requests_wait": r"\b(?:requests?|users?|clients?|jobs?)\b[^;\n]{0,30}?\b(?:wait|waits|waiting|"
    r"queued?|in (?:a |the )?queue)\b|\blow throughput\b|"
    r"\bthroughput (?:is low|does not|doesn't)\b",
    "processor_busy": r"\b(?:cpu(?: core)?|core|thread|python process)\b[^;\n]{0,20}?"
    r"\b(?:(?:9\d|100) ?%|saturated|pegged|maxed|is the limit)|"
    r"\b(?:data ?loader|pre-?processing|tokeni[sz](?:ing|ation)|image decoding) "
    r"(?:is|takes|limits)\b",
    "poor_output": rf"{_OUTPUT}[^;\n]{{0,40}}?\b{_POOR}|"
    rf"\b(?:poor|worse|bad|wrong|lower) "
    rf"(?:answers?|outputs?|results?|quality|accuracy|languages?|responses?|scores?)\b|"
    r"\b(?:writes?|answers?|switches) (?:in|to) (?:the wrong|another|other) languages?\b|"
    r"\b(?:repeats itself|loops? endlessly|quality loss|loss of quality|loss of accuracy)\b",
    "garbled_output": rf"{_OUTPUT}[^;\n]{{0,40}}?\b(?:nonsens\w{{1,4}}|gibberish|garbled|garbage|"
    r"incoherent)\b|"
    r"\b(?:nonsense|gibberish|garbled|incoherent) (?:answers?|outputs?|text|results?)\b",
    "second_server": rf"\b(?:second|another|other|earlier|old|previous|two|both|several) "
    rf"(?:\w{{1,20}} )?{_UNIT}e?s?\b{_SPAN}\b{_HERE}|"
    rf"\b(?:second|another|other|earlier|old|previous|two) (?:\w{{1,20}} )?{_UNIT}e?s?\b{_SPAN}"
    r"(?:\bctrl[- +]?z\b|\bsuspended\b|\bin the background\b|--net(?:work)?[= ]host\b|"
    r"\b(?:was|were) not stopped\b)|"
    rf"\bby hand\b{_SPAN}\b(?:service|daemon|unit)\b{_SPAN}\b(?:enabled|runs|running|active)\b|"
    rf"\b(?:service|daemon|unit)\b{_SPAN}\b(?:enabled|runs|running|active)\b{_SPAN}\bby hand\b",
    "unused_reserve": r"\breserved\b[^;\n]{0,20}?\bbut (?:unallocated|unused|"
    r"not (?:allocated|used))\b|"
    r"\breserved [^;\n]{0,30}?\b(?:above|more than|larger than|higher than|exceeds|over) "
    r"(?:what is )?allocated\b|\bfragment(?:ed|ation)\b",
    "free_yet_refused": r"\b(?:although|though|but|while|even if|yet)\b[^;\n]{0,50}?"
    r"\b(?:is|are|was|were|stays?|shows?) (?:still )?free\b(?! of)|"
    r"\b(?:although|though|even if) (?:there is |there are )?(?:enough|more) "
    r"(?:\w{1,10} ){0,5}free\b",
    "memory_held": r"\b(?:ram|host memory|cpu memory|token usage|cache usage|kv cache)\b"
    r"[^;\n]{0,40}?"
    r"\b(?:stays?|remains?|is held|keeps)\b[^;\n]{0,40}?\b(?:nothing (?:is )?running|"
    r"no (?:requests?|load|traffic)|without (?:requests?|load|traffic)|idle)\b",
    "memory_grows": r"\b(?:memory|vram|ram)\b[^;\n]{0,30}?\b(?:grows?|climbs?|rises?|increases?|"
    r"creeps up)\b[^;\n]{0,40}?\b(?:idle|no (?:requests?|load|traffic)|without (?:requests?|load|"
    r"traffic)|(?:per|an|each|every|a) (?:hour|day|request|image)|over (?:hours|days|time)|"
    r"until it)\b|\b(?:memory|vram|ram)\b[^;\n]{0,30}?\b(?:never|not) (?:released|freed|"
    r"given back|returned) (?:after|when|until)\b",
    "desktop_on_card": r"\b(?:desktop|display|monitors?|screens?|x server|xorg|gnome|kde|"
    r"compositor|window manager|browser|game)\b[^;\n]{0,40}?\b(?:same|this|that) (?:gpu|card)\b|"
    r"\b(?:gpu|card)\b[^;\n]{0,40}?\b(?:drives|also drives|renders|runs) (?:the |a |my )?"
    r"(?:desktop|display|monitors?|screens?)\b|"
    r"\b(?:monitors?|displays?|screens?) (?:is |are )?(?:attached|connected|plugged in)\b",
    "lfs_pointers": r"(?:safetensors|weights?|shards?|files?|\.bin|gguf)\b[^;\n]{0,40}"
    r"\b\d{2,3} bytes\b|\b(?:git[- ])?lfs pointers?\b|"
    r"\b(?:cloned?|checked out) without (?:git[- ])?lfs\b",
    "fetch_interrupted": r"\b(?:download|pull|clone|copy|transfer)(?:ing)?\b[^;\n]{0,30}"
    r"\b(?:interrupted|aborted|cancell?ed|broke off|incomplete|not complete|not finished|"
    r"cut off)\b|"
    r"\b(?:interrupted|aborted|incomplete|partial) (?:download|pull|clone|copy)\b",
    "not_logged_in": r"\bnot logged in\b(?! (?:as root|to the console))|\bnever logged in\b|"
    r"\b(?:no|without an?) (?:hf |hugging ?face |access |hub |auth )token\b|"
    r"\b(?:no|without a) token\b(?= (?:is|was|given|set|passed|in the|to the)|$)",
    "no_access": r"\b(?:licen[sc]e|terms|conditions)\b[^;\n]{0,20}\bnot (?:yet )?accepted\b|"
    r"\b(?:has|have|did) not accept(?:ed)? (?:the |its )?(?:licen[sc]e|terms|conditions)\b|"
    r"\baccess\b[^;\n]{0,30}\bnot (?:yet )?(?:granted|approved|requested)\b|"
    r"\b(?:model|repo(?:sitory)?) is (?:private|gated)\b",
    "exposed": r"\b(?:public|internet)[- ](?:address|ip|facing|endpoint|network|server)\b|"
    r"\b(?:open|exposed|reachable|served|listens)\b[^;\n]{0,30}?\b(?:internet|publicly|public)\b|"
    r"\buntrusted (?:models?|checkpoints?|users?|input|files?|weights)\b|"
    r"\b(?:checkpoints?|models?|weights|files)\b[^;\n]{0,20}?\bfrom (?:others|strangers|unknown)\b",
    "scanned": r"\bCVE-\d{4}-\d{3,7}\b|\bGHSA-\w{4}-\w{4}-\w{4}\b|"
    r"\bsecurity (?:scan(?:ner|s)?|advisor(?:y|ies)|audit|review|team|bulletins?)\b|"
    r"\bvulnerabilit(?:y|ies)\b|\bvulnerable\b|\b(?:trivy|grype|snyk|pip-audit|clair)\b|"
    r"\b(?:image|container|dependency) scan(?:ner|s)?\b|\bscan of (?:the |our )?images?\b",
    "slower_split": rf"\b(?:as slow as|slower than|no faster than|not faster than|same speed as) "
    rf"(?:with |on |using )?{_FEWER}\b|"
    r"\b(?:does not|doesn't|do not|hardly|barely|poorly|badly) scales?\b|"
    r"\bscales? (?:badly|poorly)\b|"
    r"\bscaling (?:is )?(?:poor|bad)\b|\bpoor (?:multi-gpu )?scaling\b",
}
_PATTERNS = {name: re.compile(words, re.IGNORECASE) for name, words in _SAID.items()}
_MOST, _LONGEST = 50, 500
_OF_PORTS = ("second_server",)
_ELSEWHERE = re.compile(r"\b(?:another|a different|different|other|own|its own) ports?\b", re.I)


def with_symptoms(workload: Workload, notes: tuple[str, ...]) -> Workload:
    """The workload with what notes tell of how it runs, each with the words that tell it."""
    told = {
        name: note.strip()[:200]
        for name, words in _PATTERNS.items()
        for note in notes[:_MOST]
        if words.search(note[:_LONGEST]) and not (name in _OF_PORTS and _ELSEWHERE.search(note))
    }
    return replace(workload, symptoms=seen(told, "notes")) if told else workload
