"""Function words of English and Spanish, accent-folded.

Left out is every word that commonly carries content in the other language, because one
list serves both: once, can, sea, era, hay, solo, todo, tan, ante, bajo, ella, son, sin,
dos, algo. So is "he", a Spanish verb form, and "may", which in memories is mostly a month.
"""

_ENGLISH_WORDS = """
a an the and or but nor so if then than as of at by for with from to into onto in on
about against between through during before after above below up down out off over
under again further here there when where why how all any both each few more most
other some such only own same too very just not no yes because while also
i me my mine myself we us our ours ourselves you your yours yourself him his himself
she her hers herself it its itself they them their theirs themselves
what which who whom whose this that these those
am is are was were be been being have has had having do does did doing
will would could should shall might must ought cannot
dont doesnt didnt isnt arent wasnt werent hasnt havent hadnt wont wouldnt couldnt
shouldnt cant shant mustnt mightnt neednt aint
"""
ENGLISH = frozenset(_ENGLISH_WORDS.split())

_SPANISH_WORDS = """
el la los las un una unos unas lo al del de y e o ni que pero sino aunque pues
a con contra desde durante en entre hacia hasta para por segun sobre tras
yo tu ti te me mi mis tus su sus se si le les nos os nosotros nosotras vosotros
ellos ellas usted ustedes nuestro nuestra nuestros nuestras vuestro vuestra
este esta estos estas esto ese esa esos esas eso aquel aquella aquellos aquellas
aquello quien quienes cual cuales cuyo cuya como cuando donde cuanto porque
muy mas menos ya no tambien tampoco asi aun otro otra otros otras cada tanto
es eres somos soy fue fui fueron eran ser sido siendo estan estoy estamos
estaba estaban estar ha has han hemos haber habia habian hubo
"""
SPANISH = frozenset(_SPANISH_WORDS.split())

STOPS = ENGLISH | SPANISH

# A word is evidence for its language only where the other one does not use it; letters
# (variables, list items) and the abbreviations among them are evidence for none.
_AMBIGUOUS = """
a e i o y me no has as so do un es al se si mi con os
"""
ENGLISH_EVIDENCE = ENGLISH - SPANISH - frozenset(_AMBIGUOUS.split())
SPANISH_EVIDENCE = SPANISH - ENGLISH - frozenset(_AMBIGUOUS.split())
