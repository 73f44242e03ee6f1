#!/usr/bin/env python3
"""Ids of WordPiece by Hugging Face's tokenizers, for tests/datasets/tokenizers.

    python3 -m venv oracle && oracle/bin/pip install tokenizers==0.20.3
    oracle/bin/python tests/golden/wordpiece.py [DATA]      writes tests/golden/wordpiece/
    oracle/bin/python tests/golden/wordpiece.py --differences
    oracle/bin/python tests/golden/wordpiece.py --speed DATA PROGRAM

Versions disagree with each other about characters, so it is this one. DATA is the folder of the data sets: bert/vocab.txt.gz,
glue/*/* and imdb/aclImdb_*.tar.zst are read (with zstd) where they are there, and what is written of them are hashes. Without
DATA, what the file holds of them is kept. --differences prints where the oracle's tables of characters differ from those of
utf8proc (libutf8proc.so.2 of Debian 12), for datasets/tokenizers/unicode_differences.h. --speed runs PROGRAM, that is
build/bin/tokenize_speed, and the oracle in turn on IMDb, each on one thread, and prints a record
(docs/results/speed/tokenize.json).
"""
import ctypes
import glob
import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../bench"))
import measured  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402

VERSION = "0.20.3"
HERE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "wordpiece")
GOLDEN = os.path.join(HERE, "golden.json")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MODES = {
    "uncased": {},
    "cased": {"lowercase": False},
    "lower-case, accents kept": {"strip_accents": False},
    "cased, accents dropped": {"lowercase": False, "strip_accents": True},
    "not cleaned": {"clean_text": False, "handle_chinese_chars": False},
}


def small_vocabulary():
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ("the hello world un able un##want able play ##ing ##ed ##s ##er house mask Mask sep New York I am AM "
             "don can ##not été ete naïve Straße strasse ß ##ß ##sse αθήνα αθηνα Αθήνα 中 文 日本 日 本 ##文 ᄒ ᅡ ᆫ ##ᅡ ##ᆫ "
             "한 ##글 한글 й и ##й ##и привет İ i̇ ##̇ 1 12 ##3 2019 ##19 ’ “ … — 。 ， € ##€ © ™ ✓ ё е").split()
    signs = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    tokens = SPECIAL + list(letters) + ["##" + c for c in letters] + list("0123456789") + ["##" + c for c in "0123456789"]
    tokens += signs + list(letters.upper()) + ["##" + c for c in letters.upper()] + words
    return list(dict.fromkeys(tokens))


def tokenizer(tokens, special_in_text=True, **mode):
    options = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **mode}
    result = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100))
    result.normalizer = normalizers.BertNormalizer(**options)
    result.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    result.add_special_tokens(SPECIAL)
    result.encode_special_tokens = not special_in_text
    result.post_processor = processors.BertProcessing(("[SEP]", tokens.index("[SEP]")), ("[CLS]", tokens.index("[CLS]")))
    return result


def around(code):
    """What is done with each character: alone, between letters, and among marks that NFD puts in order."""
    c = chr(code)
    return [c, "a" + c + "b", "a\u302e" + c + "\U0001D165b"]


def codes(block):
    return [c for c in range(block, block + 4096) if not 0xD800 <= c < 0xE000]


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def words_of_characters(options):
    normalizer = normalizers.BertNormalizer(**{"strip_accents": None, **options})
    split = pre_tokenizers.BertPreTokenizer()
    result = []
    for block in range(0, 0x110000, 4096):
        lines = []
        for code in codes(block):
            for text in around(code):
                words = [word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text))]
                lines.append("\x1f".join(words) + "\n")
        result.append(digest("".join(lines).encode()))
    return result


def packed(encodings):
    """The ids of each text and -1, 4 bytes each, the lowest first."""
    data = bytearray()
    for encoding in encodings:
        ids = encoding.ids + [-1]
        data += struct.pack("<%di" % len(ids), *ids)
    return bytes(data)


def batch(oracle, texts):
    return oracle.encode_batch_fast(texts, add_special_tokens=False) if hasattr(oracle, "encode_batch_fast") else \
        oracle.encode_batch(texts, add_special_tokens=False)


def ids_of_characters(oracle):
    return [digest(packed(batch(oracle, [text for code in codes(block) for text in around(code)])))
            for block in range(0, 0x110000, 4096)]


NASTY = [
    "", " ", "hello world", "Hello, WORLD!", "unable playing houses", "unwantable", "[MASK]", "the [MASK] house", "the[MASK]house",
    "[mask]", "[MASK", "[[MASK]]", "[MASK][MASK]", "[CLS] hello [SEP]", "[PAD][UNK]", "[ MASK ]", "\u00e9[MASK]\u0301e",
    "a" * 99, "a" * 100, "a" * 101, "\u00e9" * 100, "\u00e9" * 101, "e\u0301" * 100, "\u4e2d" * 101, "a" * 100 + " " + "a" * 101 + "!",
    "\U0001F600" * 100, "x" * 5000, "\uac00" * 34, "\uac00" * 33 + "a", "a\u302e" * 60,
    "caf\u00e9 na\u00efve \u00e9t\u00e9 \u00c9T\u00c9", "e\u0301te\u0301", "Stra\u00dfe STRASSE \u1e9e", "\u0391\u03b8\u03ae\u03bd\u03b1 \u0391\u0398\u0389\u039d\u0391\u03a3",
    "\ud55c\uae00", "\u1112\u1161\u11ab", "\u4e2d\u6587\u65e5\u672c", "a\u4e2db", "\u65e5\u672c\u3002\uff0c", "\uf900\u2f800\U0002F800", "\U00020000x",
    "\u30ab\u30ad \uff76\uff9e \u304c", "\u0439 \u0438\u0306 \u0451 \u0415\u0308", "\u0130 \u0131 I", "i\u0307", "\u212a \u212b \u2126",
    "a\u0000b", "a\ufffdb", "a\u0001b\u007fc\u0085d", "a\u200bb\u200dc\u00add\ufeffe", "\uf059a\uf059", "a\u0378b \u0378", "\U0001F971 a\U0001F971b",
    "a\tb\nc\rd\u000be\u000cf", "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u202fg\u1680h\u180ei", "a\u2018b\u2019c\u201cd\u201de\u2026f\u2014g",
    "\u037e \u1fef \u2260 \u226e a\u0338b =\u0338", "1,234.50 $12 \u20ac12 12\u20ac \u00a9 \u2122 \u2713", "don't can't cannot", "20191912345", "##ing ## #hello",
    "\u0e01\u0e33 \u0e40\u0e01 \u0e34", "\u0915\u094d\u0937\u093f", "\u0634\u064e\u062f\u0651", "\u05e9\u05c1\u05b8", "\U0001D15E\U0001D165 \U0001D160",
    "a\U0001D165\u302eb\u0301", "a\u302e\u0345\U0001D165", "a\u302e\u200b\U0001D165b", "a\u302e\u0903\U0001D165b", "\u0344\u0f73\u0f81", "\u0f71\u0f72\u0f74", "\u1e69 s\u0323\u0307 s\u0307\u0323",
    "\U0001F468\u200d\U0001F469\u200d\U0001F467 \U0001F1E9\U0001F1EA", "\ufb01 \u01c5 \u01c4 \u00b2 \u2075", "\U0001E900\U0001E922 \U00010400 \u13a0 \u10a0 \u1c90 \uab70",
    "\U000E0001a\U000E0041 \U000F0000b \U0010FFFFc \ufdd0", "\u166d\u1734\u0890\u11938 \U00011938", "-" * 300, "a-" * 150, "'" * 5 + "\"",
    "A B\u0300\u0301\u0302\u0303C", "\u0300", "\u0300a", " \u0301 b", "\u200b", "\ufeffhello", "New York I am AM", "\u0e33\u0eb3", "\u0149 \u0344", "\u3099\u304b\u3099",
]
# Bytes that are not UTF-8, which Python reads with errors="replace".
DAMAGED = ["61ff62", "c3", "c328", "e282", "e28261", "f0908d", "f0908d61", "eda080", "eda0bd", "f8888080", "c0af", "f4908080", "80", "68656c6c6fc3206c", "e0809f",
           "f09f98", "61e4b862", "fefe", "e4b8ade4b8"]
PAIRS = [("hello world", "the house"), ("", ""), ("a b c d e f g h", "i j"), ("i j", "a b c d e f g h"), ("a b c d e f", "g h i j k l"),
         ("a b c d e f g", "h i j k l m"), ("", "a b c d e"), ("playing unwantable", "[SEP] x")]


def lines_of(path):
    with gzip.open(path) as file:
        return file.read().decode("utf-8", errors="replace").split("\n")


def reviews(path):
    raw = subprocess.run(["zstd", "-dc", path], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return [archive.extractfile(m).read().decode("utf-8", errors="replace") for m in archive if m.isfile()]


def golden(data):
    assert tokenizers.__version__ == VERSION, "tokenizers %s, not %s" % (tokenizers.__version__, VERSION)
    os.makedirs(HERE, exist_ok=True)
    result = {}
    if os.path.exists(GOLDEN):
        with open(GOLDEN) as file:
            result = json.load(file)
    small = small_vocabulary()
    with open(os.path.join(HERE, "vocab.txt"), "w") as file:
        file.write("".join(token + "\n" for token in small))
    other = tokenizer(small, lowercase=False)
    other.add_tokens([AddedToken("Vienna", normalized=False), AddedToken("\u00e9\u00e9", normalized=False)])
    other.add_special_tokens(["<sep>"])
    other.save(os.path.join(HERE, "tokenizer.json"))
    result["version"] = VERSION
    result["characters"] = {mode: words_of_characters(options) for mode, options in MODES.items()}
    result["saved"] = [{"text": t, "ids": other.encode(t).ids} for t in
                       NASTY[:20] + ["in Vienna", "Viennas", "vienna", "a\u00e9\u00e9\u00e9b", "x<sep>y", "Hello WORLD New York"]]
    vocabularies = {"small": small}
    if data and os.path.exists(os.path.join(data, "bert/vocab.txt.gz")):
        vocabularies["bert"] = lines_of(os.path.join(data, "bert/vocab.txt.gz"))[:-1]
    for name, tokens in vocabularies.items():
        part = {"characters": ids_of_characters(tokenizer(tokens))}
        part["texts"] = []
        variants = [tokenizer(tokens), tokenizer(tokens, lowercase=False), tokenizer(tokens, special_in_text=False)]
        for text in NASTY:
            ids = [oracle.encode(text, add_special_tokens=False).ids for oracle in variants]
            part["texts"].append({"text": text, "uncased": ids[0], "cased": ids[1], "plain": ids[2]})
        part["damaged"] = []
        for text in DAMAGED:
            read = bytes.fromhex(text).decode("utf-8", errors="replace")
            part["damaged"].append({"bytes": text, "replaced": read.count("\ufffd"), "ids": variants[0].encode(read, add_special_tokens=False).ids})
        part["pairs"] = []
        for longest in [0] + list(range(3, 18)):
            oracle = tokenizer(tokens)
            if longest:
                oracle.enable_truncation(longest, strategy="longest_first")
            for a, b in PAIRS:
                pair, one = oracle.encode(a, b), oracle.encode(a)
                part["pairs"].append({"a": a, "b": b, "longest": longest, "ids": pair.ids, "types": pair.type_ids, "one": one.ids})
        result[name] = part
    if "bert" in vocabularies:
        result["files"] = {}
        files = sorted(glob.glob(os.path.join(data, "glue/*/*.gz"))) + sorted(glob.glob(os.path.join(data, "imdb/*.tar.zst")))
        for path in files:
            texts = reviews(path) if path.endswith(".zst") else lines_of(path)
            entry = {"texts": len(texts)}
            for mode in ["uncased", "cased"]:
                entry[mode] = digest(packed(batch(tokenizer(vocabularies["bert"], **MODES[mode]), texts)))
            result["files"][os.path.relpath(path, data)] = entry
            print(os.path.relpath(path, data), entry, flush=True)
    with open(GOLDEN, "w") as file:
        json.dump(result, file, indent=None, separators=(",", ":"))
        file.write("\n")


def differences():
    library = ctypes.CDLL("libutf8proc.so.2")
    categories = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()

    class Property(ctypes.Structure):
        _fields_ = [("category", ctypes.c_int16), ("combining_class", ctypes.c_int16)]

    library.utf8proc_get_property.restype = ctypes.POINTER(Property)
    library.utf8proc_get_property.argtypes = [ctypes.c_int32]
    library.utf8proc_decompose_char.restype = ctypes.c_ssize_t
    parts, boundary = (ctypes.c_int32 * 32)(), ctypes.c_int(0)

    def one(**step):
        off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
        return normalizers.BertNormalizer(**{**off, **step})

    clean, strip, nfd, split = one(clean_text=True), one(strip_accents=True), normalizers.NFD(), pre_tokenizers.BertPreTokenizer()
    found = {name: [] for name in ["kFormatKept", "kMarkKept", "kMarkDropped", "kPunctuationNot", "kPunctuationToo", "kStarters",
                                   "kWhole", "others"]}
    for code in (c for block in range(0, 0x110000, 4096) for c in codes(block)):
        c = chr(code)
        about = library.utf8proc_get_property(code).contents
        category = categories[about.category]
        count = library.utf8proc_decompose_char(code, parts, 32, (1 << 1) | (1 << 4), ctypes.byref(boundary))
        whole = list(map(ord, nfd.normalize_str(c)))
        cleaned = clean.normalize_str(c)
        dropped = code in (0, 0xFFFD) or category in ("Cc", "Cf", "Co") and c not in "\t\n\r"
        if dropped != (cleaned == ""):
            found["kFormatKept" if dropped else "others"].append(code)
        if (c in "\t\n\r" or category in ("Zs", "Zl", "Zp")) != (cleaned == " "):
            found["others"].append(code)
        if whole != list(parts[:count]):
            found["kWhole"].append(code)
        if whole == [code]:
            gone = strip.normalize_str(c) == ""
            if gone != (category == "Mn"):
                found["kMarkDropped" if gone else "kMarkKept"].append(code)
            moved = nfd.normalize_str("\u0345" + c) == c + "\u0345"
            if code != 0x345 and moved != (0 < about.combining_class < 240):
                found["kStarters"].append(code)
        alone = len(split.pre_tokenize_str("a" + c + "b")) == 3
        sign = code < 128 and not c.isalnum() and 32 < code < 127 or category[0] == "P"
        if alone != sign:
            found["kPunctuationToo" if alone else "kPunctuationNot"].append(code)
    for name, list_of in found.items():
        ranges = []
        for code in list_of:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
        print(name, " ".join("{0x%X, 0x%X}," % tuple(r) for r in ranges))

def speed(data, program):
    texts = reviews(os.path.join(data, "imdb/aclImdb_test.tar.zst"))
    lines = [" ".join(text.split("\n")).replace("\t", " ") for text in texts]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    tokens = lines_of(os.path.join(data, "bert/vocab.txt.gz"))[:-1]
    oracle = tokenizer(tokens)
    with open("/tmp/tokenize-speed.txt", "w") as file:
        file.write("".join(line + "\n" for line in lines))
    vocabulary = os.path.join(data, "bert/vocab.txt.gz")
    rows = []
    for turn in range(5):
        start = time.perf_counter()
        batch(oracle, lines)
        theirs = megabytes / (time.perf_counter() - start)
        done = subprocess.run([program, vocabulary, "/tmp/tokenize-speed.txt"], check=True,
                              stdout=subprocess.PIPE, text=True)
        ours = float(done.stdout.split()[0])
        rows.append([str(turn + 1), "%.2f" % theirs, "%.2f" % ours, "%.1f" % (ours / theirs)])
        print("tokenizers %.2f MB/s, Bochner %.2f MB/s" % (theirs, ours), file=sys.stderr, flush=True)
    os.remove("/tmp/tokenize-speed.txt")
    table = {"title": "one thread, MB/s", "head": ["round", "tokenizers", "Bochner", "times"], "rows": rows}
    print(json.dumps({**measured.here(), "megabytes": round(megabytes, 1), "peer": f"tokenizers {tokenizers.__version__}",
                      "tables": [table]}, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--differences"]:
        differences()
    elif sys.argv[1:2] == ["--speed"]:
        speed(sys.argv[2], sys.argv[3])
    else:
        golden(sys.argv[1] if len(sys.argv) > 1 else None)
