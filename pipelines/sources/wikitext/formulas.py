"""Short formulas of LaTeX as a line of text: what reads as a word of a sentence."""

from __future__ import annotations

import re

LONGEST = 120
"""Characters of LaTeX; what is longer is set on a line of its own and is no word."""
LONGEST_TEXT = 60

COMMANDS = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ
lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω
Gamma Γ
Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω times × cdot · div ÷ pm ±
mp ∓ le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ sim ∼ equiv ≡ propto ∝ to → rightarrow →
leftarrow ← Rightarrow ⇒ leftrightarrow ↔ infty ∞ in ∈ notin ∉ subset ⊂ subseteq ⊆ cup ∪ cap ∩
forall ∀ exists ∃ partial ∂ nabla ∇ ell ℓ hbar ℏ circ ∘ prime ′ ldots … dots … cdots … ll ≪ gg ≫
star ⋆ ast ∗ deg ° emptyset ∅ aleph ℵ perp ⊥ bot ⊥ parallel ∥ angle ∠ land ∧ lor ∨ lnot ¬ wedge ∧
vee ∨ mapsto ↦ mid | lt < gt >
"""
WORDS = "sin cos tan cot log ln lg exp max min sup inf lim det gcd mod dim ker"
STYLES = """
left right displaystyle textstyle scriptstyle big Big bigl bigr rm bf it mathbf mathrm mathit
mathcal
mathbb text textrm textbf boldsymbol operatorname mbox
"""
SIGNS = {
    **dict(zip(COMMANDS.split()[::2], COMMANDS.split()[1::2], strict=True)),
    **{word: f" {word} " for word in WORDS.split()},
    **dict.fromkeys(STYLES.split(), ""),
    "quad": " ",
    "qquad": " ",
}
"""Commands, and the sign or the word that they show."""
ACCENTS = {"bar": "\u0304", "overline": "\u0304", "hat": "\u0302", "tilde": "\u0303"} | {
    "dot": "\u0307",
    "ddot": "\u0308",
    "vec": "\u20d7",
}
RAISED = str.maketrans("0123456789+-−=()nix", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱˣ")
LOWERED = str.maketrans("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
OPERATORS = frozenset("×·÷±∓≤≥≠≈∼≡∝→←⇒↔∈∉⊂⊆∪∩≪≫<>")
FUNCTION = re.compile(rf"\b({'|'.join(WORDS.split())}) (?=[(\[])")
ATOM = re.compile(r"\d+|[^\W\d][⁰-₟¹²³ᵢ-ᵥˣ]*|\([^()]*\)")
INDEX = re.compile(r"\s*([_^])\s*(?:\{([^{}]{1,20})\}|([^\s{}\\]))")
ACCENT = re.compile(rf"\\({'|'.join(ACCENTS)})\s*(?:\{{\s*(\w)\s*\}}|\s(\w))")
FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}\\]{1,30})\}\s*\{([^{}\\]{1,30})\}")
ROOT = re.compile(r"\\sqrt\s*\{([^{}\\]{1,20})\}")
COMMAND = re.compile(r"\\([A-Za-z]+)[ ]?")
SPACE = re.compile(r"\\[,;:! ]|~")
BRACKET_BLANK = re.compile(r"(?<=[(\[]) | (?=[)\],.])")
ESCAPES = (("\\\\", " "), ("\\%", "%"), ("\\{", "⦃"), ("\\}", "⦄"))
"""Braces that are shown are put aside until groups are resolved."""
GROUP = re.compile(r"\{([^{}]*)\}")
READABLE = re.compile(r"[^\\{}^_&$]{1,60}")


def formula_text(latex: str) -> str | None:
    """A short formula as text: `x^2 \\le \\pi` gives x² ≤ π.

    Returns:
        None when it cannot be written in one line of Unicode without loss.
    """
    text = latex.strip()
    if len(text) > LONGEST or "\n" in text:
        return None
    for escaped, sign in ESCAPES:
        text = text.replace(escaped, sign)
    text = SPACE.sub(" ", text).rstrip("\\")
    text = ACCENT.sub(lambda m: (m[2] or m[3]) + ACCENTS[m[1]], text)
    text = COMMAND.sub(_sign, text)
    text = INDEX.sub(_index, text)
    text = ROOT.sub(lambda m: "√" + _bracketed(m[1]), text)
    text = FRACTION.sub(lambda m: f"{_bracketed(m[1])}/{_bracketed(m[2])} ", text)
    text = FUNCTION.sub(r"\1", " ".join(GROUP.sub(r"\1", text).split()))
    text = BRACKET_BLANK.sub("", text)
    if not READABLE.fullmatch(text) or not any(map(str.isalnum, text)):
        return None
    return text.replace("⦃", "{").replace("⦄", "}")


def _sign(match: re.Match[str]) -> str:
    sign = SIGNS.get(match[1], match[0])
    return f" {sign} " if sign in OPERATORS else sign


def _index(match: re.Match[str]) -> str:
    """An index or an exponent in small signs; unchanged, and so unreadable, when there are none."""
    signs = (match[2] or match[3]).replace(" ", "").replace(",", "")
    table = RAISED if match[1] == "^" else LOWERED
    if match[1] == "^" and signs in ("′", "°", "∘", "*", "∗"):
        return signs.replace("∘", "°")
    return signs.translate(table) if all(ord(sign) in table for sign in signs) else match[0]


def _bracketed(part: str) -> str:
    part = part.strip()
    return part if ATOM.fullmatch(part) else f"({part})"
