"""Phrases of instructions to a reader, by language: data of the guard ``injection``.

In both tables ``*`` stands for the rest of a word. White space is a single space, case is ignored.
"""

IGNORE_INSTRUCTIONS = {
    "en": (
        (
            "ignore|ignoring|disregard*|forget|forgetting|override|overriding|bypass*|discard|dismiss"
            "|abandon|set aside|pay no attention|do not follow|don't follow|stop following"
            "|no longer follow|do not obey|don't obey|stop obeying|throw away"
        ),
        (
            "previous|prior|above|earlier|preceding|foregoing|initial|original|existing|your"
            "|you were|you have been|system"
        ),
        (
            "instructions|prompt|prompts|directives|guideline*|guidance|orders|commands|programming"
            "|told|review rules|safety rules|your rules|system rules|previous rules|prior rules"
            "|rules you were|rules above"
        ),
    ),
    "de": (
        "ignorier*|vergiss|vergesst|vergessen sie|missachte*|verwirf*|beachte nicht|befolge nicht",
        "vorherig*|vorig*|bisherig*|obig*|früher*|vorangegangen*|vorangehend*|deine*|ihre*|eure*",
        "anweisung*|instruktion*|regel|regeln|befehl*|vorgabe*|anleitung*|richtlinie*",
    ),
    "nl": (
        "negeer|vergeet|sla|volg niet",
        "vorige|eerdere|voorgaande|bovenstaande|je|uw",
        "instructies|regels|opdrachten|aanwijzingen|richtlijnen",
    ),
    "fr": (
        (
            "ignore|ignorez|ignorer|oublie|oubliez|oublier|ne tiens pas compte|ne tenez pas compte"
            "|fais abstraction|faites abstraction|ne suis pas|ne suivez pas"
        ),
        "précédent*|antérieur*|ci-dessus|reçu*|donné*|tes|vos",
        "instruction*|consigne*|règle*|ordres|directive*",
    ),
    "es": (
        "ignora|ignore|ignoren|olvida|olvide|olvídate|haz caso omiso|descarta|no sigas|desobedece",
        "anterior*|previa*|previo*|de arriba|recibid*|tus|sus",
        "instrucciones|indicaciones|reglas|órdenes|directrices",
    ),
    "it": (
        "ignora|ignorate|ignorare|dimentica|dimenticate|non seguire|trascura",
        "precedent*|sopra|ricevut*|tue|vostre",
        "istruzioni|regole|indicazioni|direttive|ordini",
    ),
    "pt": (
        "ignore|ignora|ignorem|esqueça|esquece|desconsidere|não siga",
        "anterior*|prévia*|acima|recebid*|suas|tuas",
        "instruções|regras|ordens|orientações|diretrizes",
    ),
    "pl": (
        "ignoruj*|zignoruj*|zapomnij*|pomiń",
        "poprzedni*|wcześniejsz*|powyższ*|swoje|twoje",
        "instrukcj*|poleceni*|zasad*|reguł*|wskazów*",
    ),
    "cs": (
        "ignoruj*|zapomeň*",
        "předchozí*|dřívější*|výše*|své",
        "pokyn*|instrukc*|pravidl*|příkaz*",
    ),
    "ru": (
        "игнориру*|проигнориру*|забуд*|отбрось*|не следуй*",
        "предыдущ*|прошл*|прежн*|вышеуказанн*|предшествующ*|свои|твои|ваши",
        "инструкц*|указани*|команд*|правил*|распоряжени*",
    ),
    "uk": (
        "ігнору*|проігнору*|забуд*",
        "попередн*|вищезазначен*|свої",
        "інструкц*|вказівк*|команд*|правил*",
    ),
    "sv": (
        "ignorera|glöm|bortse",
        "tidigare|föregående|ovanstående|dina",
        "instruktion*|regl*|anvisning*|order",
    ),
    "tr": (
        "yok say*|unut*|görmezden gel*|dikkate alma*",
        "önceki|yukarıdaki",
        "talimat*|komut*|kural*|yönerge*",
    ),
    "vi": ("bỏ qua|phớt lờ|quên", "trước|ở trên", "hướng dẫn|chỉ dẫn|lệnh|quy tắc|chỉ thị"),
    "id": ("abaikan|lupakan", "sebelumnya|di atas|terdahulu", "instruksi|perintah|aturan|petunjuk"),
    "zh": (
        "忽略*|无视*|無視*|忘记*|忘記*|忽視*|不要遵守*|不要理会*",
        "之前*|以前*|以上*|上面*|前面*|上述*|先前*|此前*|所有*|系统*|系統*",
        "指令*|指示*|提示*|规则*|規則*|要求*|命令*",
    ),
    "ja": (
        "無視*|忘れ*|従わない*",
        "以前*|前の*|上記*|これまで*|今まで*|先ほど*|すべて*",
        "指示*|命令*|ルール*|プロンプト*|規則*",
    ),
    "ko": (
        "무시*|잊*|따르지*",
        "이전*|위의*|앞의*|기존*|모든*",
        "지시*|명령*|지침*|규칙*|프롬프트*",
    ),
    "ar": (
        "تجاهل*|انس*",
        "السابق*|أعلاه|جميع|كل",
        "التعليمات*|الأوامر*|القواعد*|الإرشادات*|تعليمات*",
    ),
    "he": (
        "התעלם*|התעלמ*|שכח*",
        "הקודמ*|הנ״ל|לעיל|כל",
        "הוראות*|ההוראות*|הנחיות*|ההנחיות*|הכללים*",
    ),
    "hi": ("अनदेखा*|नज़रअंदाज़*|नजरअंदाज*|भूल*|उपेक्षा*", "पिछल*|पूर्व*|उपरोक्त*", "निर्देश*|आदेश*|नियम*"),
}
"""Language → words for ignoring, words for what came before, words for instructions.

All three in one sentence, in any order, are an instruction to ignore earlier instructions.
"""

READER_PHRASES = """
new instructions for (you|the ~(ai|llm|model|assistant|reviewer|agent|bot))
you are now ~(dan|jailbroken|unrestricted|unfiltered|developer mode|assistant|ai|llm|bot|reviewer)
you are no longer ~(assistant|ai|llm|bot|reviewer|bound|model|limited)
from now on,? you (are|will|must|only|always)
(pretend|act|behave|respond) (as if|as though|like|that) you ~(no (rules|restrictions)|admin*)
(pretend|act|behave|respond) (as|like|to be) an? ~(unrestricted|unfiltered) (ai|model|assistant)
(enter|enable|activate|switch to) ~(developer|god|jailbreak|dan) mode and
(reveal|repeat|print|output|show|tell me|leak|dump|recite) ~your ~(prompts?|instructions|rules)
(reveal|repeat|print|output|show|leak|dump) ~your ~(secret*|(api|private) keys?|credentials|token*)
(reveal|repeat|print|output|recite|leak) ~(system|hidden|initial) prompt ~(verbatim|in full)
(send|post|upload|exfiltrate) ~(secrets|credentials|api keys?|tokens|environment) ~to (http*|me)
(ai|llm|automated|automatic|language|review|code|gpt) ~@[:,]? ~(must|should|please|always|never) ~+
(ai|llm|automated|automatic|language|review|code|gpt) ~@[:,]? ~(do not|don't|are to|need to) ~+
(attention|message|notice|dear|hello|hey|note)[:,]? ((to|for) )?((all|any|the) )?(ai|llm|gpt) ?~@
(if you are|as) an? (ai|llm|language model|automated @)[^.]{0,60}(approve|skip|merge|say|must)
(approve|accept|merge|pass) (this|the) ~# (without|immediately|unconditionally|regardless)
(mark|classify|treat|label|consider|report) ~(this|everything in this) ~as ~(safe|approved|trusted)
(rate|score|grade) (this|the) ~with ~(full|perfect|maximum|highest|top) (marks?|score|rating|grade)
(give|assign|award|return) ~(score|rating|mark|grade) of (10|100|1\\.0|5|one)
(report|return|output|raise|list) (no|zero) ~(finding*|issues|problems|vulnerabilit*) (for|in) this
(report|return|output) an empty list of ~(finding*|issues|problems|vulnerabilit*) (for|in) this
(do not|don't|never) (report|flag|mention) ~(finding*|issues?|problems?|vulnerab*) ~this ~(#|file)
(respond|reply|answer) (only |just )?with (only |just )?[^a-z]{0,2}(lgtm|approved?|merge|no issues)
your (only |real |true |new )?(task|job|goal|purpose|role) (is now|now is|is no longer|from now on)
your (only |real |true )(task|job|goal|purpose|role) now is
"""
"""One phrase a line. ``~`` stands for up to four words, ``@`` for whoever reads, ``#`` for what is
read, ``+`` for what a reviewer is to do.
"""

READER_WORDS = "reviewers?|agents?|assistants?|models?|judges?|bots?|systems?|tools?"
CHANGE_WORDS = "change|pr|pull request|merge request|diff|commit|patch|code"
REVIEWER_ACTIONS = (
    "approve|skip|ignore|merge|accept|pass|rate|score|report no*|report nothing|not report|not flag"
    "|flag nothing|report|flag|mention|comment"
)
