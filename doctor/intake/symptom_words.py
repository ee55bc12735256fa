"""What notes tell of a service that runs: slow at first, idle, poor answers, memory not free."""

from __future__ import annotations

import re
from dataclasses import replace

from doctor.facts import Workload, seen
from doctor.intake.together_words import told_together

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
_FEWER = (
    r"(?:(?:only )?(?:one|two|four|1|2|4)|a single|single|just one|fewer|tp ?=? ?[12]|"
    r"layer[- ]split|split by layer)"
)

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
    r"\b(?:repeats (?:itself|words?|tokens?|the same)|loops? endlessly|quality loss|"
    r"loss of (?:quality|accuracy))\b|\b(?:8|16)[- ]?bits? (?:is|are|was|"
    r"gives?) (?:much )?better\b",
    "garbled_output": rf"{_OUTPUT}[^;\n]{{0,40}}?\b(?:nonsens\w{{1,4}}|gibberish|garbled|garbage|"
    r"incoherent|mak(?:es?|ing) no sense|no sense|empty)\b|"
    r"\b(?:nonsense|gibberish|garbled|incoherent|senseless) (?:[a-z]{2,9} ){0,2}(?:answers?|"
    r"outputs?|text|results?)\b",
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
    r"\b(?:cloned?|checked out|downloaded|fetched) without (?:git[- ])?lfs\b|"
    r"\b(?:git[- ])?lfs (?:is |was )?(?:not |never )(?:installed|set up|there|pulled|run)\b|"
    r"(?:safetensors|weights?|shards?|files?|\.bin|gguf)\b[^;\n]{0,40}"
    r"\b(?:(?:a )?few (?:hundred )?bytes|[1-4] ?kb|1[3-9]\d b)\b",
    "flash_off": r"\bflash[- _]?att(?:entio)?n?\b[^;\n]{0,15}\b(?:not|off|disabled|never)\b|"
    r"\b(?:no|without) (?:-fa\b|flash[- _]?att(?:entio)?n?\b)",
    "fetch_interrupted": r"\b(?:files?|shards?|weights?|safetensors|headers?|checkpoints?|"
    r"gguf)\b[^;\n]{0,40}"
    r"\b(?:damaged|corrupt\w*|truncated|(?:begins?|starts?) with zeros|zeroed|smaller than|"
    r"incomplete|"
    r"partial|wrong (?:hash|size|checksum)|(?:hash|checksum|size) (?:differs|mismatch|is wrong))\b|"
    r"\b(?:download|pull|clone)\w*\b[^;\n]{0,15}\b(?:stopped|failed half-?way|hung up)\b|"
    r"\b(?:download|pull|clone|copy|transfer)(?:ing)?\b[^;\n]{0,30}"
    r"\b(?:interrupted|aborted|cancell?ed|broke off|incomplete|not complete|not finished|"
    r"cut off)\b|"
    r"\b(?:interrupted|aborted|incomplete|partial) (?:download|pull|clone|copy)\b",
    "not_logged_in": r"\bnot logged in\b(?! (?:as root|to the console))|\bnever logged in\b|"
    r"\b(?:no|without an?) (?:hf |hugging ?face |access |hub |auth )token\b|"
    r"\b(?:no|without a) token\b(?= (?:is|was|given|set|passed|in the|to the)|$)",
    "no_access": r"\b(?:licen[sc]e|terms|conditions)\b[^;\n]{0,20}\bnot (?:yet )?accepted\b|"
    r"\b(?:has|have|did) not accept(?:ed)? (?:the |its )?(?:licen[sc]e|terms|conditions)\b|"
    r"\baccess\b[^;\n]{0,30}\bnot (?:yet )?(?:granted|approved|requested)\b|"
    r"\bno access to (?:the |that |this )?(?:gated |private )?(?:model|repo(?:sitory)?|weights)\b|"
    r"\b(?:model|repo(?:sitory)?) is (?:private|gated)\b",
    "cpu_at_work": r"\bcpu\b[^;\n]{0,25}?\b(?:busy|above|over|at|is used|does|computes|100|"
    r"[5-9]\d)\b|"
    r"\b(?:partly|mostly|some|half|runs?|only)\b[^;\n]{0,20}\b(?:on|by) (?:the )?cpu\b|"
    r"\bgpu\b[^;\n]{0,15}\b(?:not|hardly|barely|never) (?:fully )?(?:used|busy|at work)\b",
    "whole_per_rank": r"\b(?:whole|entire|full|own copy|all of the)\b[^;\n]{0,30}\b(?:each|every|"
    r"per) "
    r"(?:rank|process|worker|gpu)\b|\b(?:each|every) (?:rank|process|worker|gpu)\b[^;\n]{0,20}"
    r"\b(?:loads?|reads?|keeps?|holds?)\b[^;\n]{0,20}\b(?:whole|entire|full|own|all)\b",
    "vocabulary": r"\bvocab(?:ulary|_size)?\b[^;\n\d]{0,40}\d{4,6}\b",
    "builds_by_script": r"\bbuild\.py\b",
    "builds_engine": r"\btrtllm-build\b|\bconvert_checkpoint(?:\.py)?\b|"
    r"\b(?:build(?:s|ing)?|convert(?:s|ing)?)\b[^.;\n]{0,20}\b(?:trt|tensorrt)?[- ]?engines?\b",
    "bound_to_node": r"\bnumactl\b[^;\n]{0,40}(?:(?:^|\s)-m|--membind)[ =]?\d\b(?!,)",
    "many_at_once": r"\b(?:[5-9]\d\d|\d{4,6}) (?:[a-z]{2,12} ){0,2}(?:concurren\w{1,4}|parallel|"
    r"simultaneous|users|clients|requests|prompts|connections)\b",
    "no_more_options": r"\bno (?:other|further|more) (?:options?|arguments?|flags?|parameters?)\b|"
    r"\b(?:no|without)(?: a| any)? (?:tensor[-_ ]?parallel\w*|-{0,2}tp\b)",
    "exposed": r"\b(?:public|internet)[- ](?:address|ip|facing|endpoint|network|server)\b|"
    r"\b(?:open|exposed|reachable|served|listens)\b[^;\n]{0,30}?\b(?:internet|publicly|public)\b|"
    r"\buntrusted (?:models?|checkpoints?|users?|input|files?|weights)\b|"
    r"\b(?:checkpoints?|models?|weights|files)\b[^;\n]{0,20}?\bfrom (?:others|strangers|unknown)\b",
    "scanned": r"\bCVE-\d{4}-\d{3,7}\b|\bGHSA-\w{4}-\w{4}-\w{4}\b|"
    r"\bsecurity (?:scan(?:ner|s)?|advisor(?:y|ies)|audit|review|team|bulletins?)\b|"
    r"\bvulnerabilit(?:y|ies)\b|\bvulnerable\b|\b(?:trivy|grype|snyk|pip-audit|clair)\b|"
    r"\b(?:image|container|dependency) scan(?:ner|s)?\b|\bscan of (?:the |our )?images?\b",
    "slower_split": rf"\b(?:as slow as|slower than|no faster than|not faster than|same speed as) "
    rf"(?:with |on |using |in )?{_FEWER}\b|"
    rf"\b(?:less|lower|worse) (?:throughput|speed|performance)\b{_SPAN}\bthan (?:with |on |of )?"
    rf"{_FEWER}\b|\b(?:twice|\d(?:\.\d)? ?(?:x|times)) (?:as long|longer|slower|as slow)\b{_SPAN}"
    rf"\b(?:as|than) (?:with |on )?{_FEWER}\b|"
    rf"\b(?:more|two|both|several|four|eight) (?:cards|gpus)\b[^;\n]{{0,30}}?\b(?:slower|"
    rf"no faster)\b|"
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
    told |= told_together(tuple(note[:_LONGEST] for note in notes[:_MOST]))
    return replace(workload, symptoms=seen(told, "notes")) if told else workload
