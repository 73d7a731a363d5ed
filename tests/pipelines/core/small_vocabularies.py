"""Small vocabularies, trained in a second on a few lines in 18 scripts."""

from __future__ import annotations

import io
from functools import cache

import sentencepiece as spm
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from pipelines.core.normalizers import normalizer_spec
from pipelines.core.word_cache import SCORE_STEP

LINES = [
    "The quick brown fox jumps over the lazy dog; the dog <sleeps> on / under the mat.",
    "Les élèves français étudient déjà à l'école, où l'été naïf est fêté.",
    "Người Việt Nam viết tiếng Việt bằng chữ Quốc ngữ có nhiều dấu.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق، وقد وُهِبوا عقلاً.",
    "می\u200cخواهم خانه\u200cهای قدیمی را ببینم و کتاب\u200cها را بخوانم.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता है।",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "ක්\u200dෂේත්\u200dර සියලු මනුෂ්\u200dයයෝ නිදහස්ව උපත ලබා ඇත.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์ น้ำและคำ",
    "ມະນຸດທຸກຄົນເກີດມາມີສິດເທົ່າທຽມກັນ ນ້ຳ",
    "មនុស្សទាំងអស់ កើតមកមានសេរីភាព និងសមភាព។",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。",
    "すべての人間は、生まれながらにして自由であり、ガギグゲゴ、パピプペポ。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ։",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "wordt woord worden 12 34 567 89 0,5 % & (a) [b] {c} = aaaa bbbb",
]

SECOND_LINES = [
    "ab\u0301cd e\u0301te\u0301 \u00a8x \u00bd\u0301 ﬁne Ａ１２ ｶﾞ ﾊﾟ \u212b \u1e9b\u0323",
    "می\u200cخواهم ක්\u200dෂ a\u200bb a\u2028b a\ufeffb a\u200fb a\u061cb a\u2026b e\u0301 \uff12",
    "literal </s> and <s>, <pad><unk> in text, a<mask>b <mask> [MASK]",
    "น้ำ ນ້ຳ ệ e\u0323\u0302 e\u0302\u0323 ا\u0651\u064e \u09c7\u09be 각 \u1100\u1161\u11a8 ㄱㅏ",
    "\u2581a\u2581 \u2581\u2581b  c \u2581",
    "tab\there \x00nul \x01 \x7f \u0301alone \u0300 \u00a0 x",
    "👩\u200d💻 👍🏽 🇩🇪🇫🇷 ☺\ufe0f 𝔘𝔫𝔦 \U0001d15e",
    "",
    "   ",
    " a  b ",
    "x" * 10_000,
    "人" * 10_000,
    "ж ч" * 3_000 + "щ" * 10_000,
    "\U00013000\U00013001 unknown \U00013002\U00013003x",
    "\ufffd end \ufdd0\ufdd1 \ue000",
]
"""What tokenizers get wrong: marks, joiners, names of special tokens, the blank's own sign, control
characters, emoji, very long words, characters without a piece."""


def normalize(name: str, text: str) -> str:
    """The text as a rule set writes it: blanks folded, none at its ends, words apart by blanks."""
    return str(_normalizer(name).Normalize(text)).removeprefix("▁").replace("▁", " ")


@cache
def _normalizer(name: str) -> spm.SentencePieceNormalizer:
    serialized = normalizer_spec(name).SerializeToString(deterministic=True)
    return spm.SentencePieceNormalizer(normalizer_spec=serialized)


@cache
def small_model(
    normalization: str = "nmt_nfkc",
    size: int = 600,
    byte_fallback: bool = False,
    quantised: bool = True,
    leave_out: str = "",
) -> bytes:
    """A SentencePiece model of LINES.

    Args:
        normalization: name of its rules.
        size: pieces at most; 256 more with `byte_fallback`.
        byte_fallback: write unknown characters as bytes.
        quantised: scores are multiples of SCORE_STEP.
        leave_out: characters of LINES that get no piece.
    """
    lines = [normalize(normalization, line) for line in LINES]
    for character in leave_out:
        lines = [line.replace(character, "") for line in lines]
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=model,
        model_type="unigram",
        vocab_size=size + 256 * byte_fallback,
        character_coverage=1.0,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        byte_fallback=byte_fallback,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
        num_threads=1,
    )
    proto = ModelProto.FromString(model.getvalue())
    proto.normalizer_spec.CopyFrom(normalizer_spec(normalization))
    if quantised:
        for piece in proto.pieces:
            piece.score = round(piece.score / SCORE_STEP) * SCORE_STEP
    return bytes(proto.SerializeToString(deterministic=True))


def plain_ids(model: bytes, lines: list[str]) -> list[list[int]]:
    """What SentencePiece itself makes of whole lines, in XLM-R's ids."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    return [[3 if k == 0 else k + 1 for k in ids] for ids in processor.encode(lines, out_type=int)]
