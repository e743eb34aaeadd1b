"""Chinese in answers: numerals, large numbers, measure words, dates; simplified and traditional."""

import re
from fractions import Fraction

HAN = "[\u3400-\u9fff]"
_DIGITS = {c: i for i, c in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_POWERS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_SCALES = {"万": "wan", "萬": "wan", "亿": "yi", "億": "yi", "千": "thousand", "百": "hundred"}
_NUMERAL = "[〇零一二三四五六七八九十百千万萬亿億两兩]"
_UNITS = {
    "元": "yuan", "块": "yuan", "塊": "yuan", "块钱": "yuan", "元钱": "yuan", "角": "jiao", "分钱": "fen",
    "人民币": "yuan", "美元": "dollars", "欧元": "euros", "歐元": "euros", "日元": "yen", "英镑": "sterling",
    "米": "m", "公尺": "m", "厘米": "cm", "公分": "cm", "釐米": "cm", "毫米": "mm", "分米": "dm", "千米": "km",
    "公里": "km", "里": "li", "克": "g", "千克": "kg", "公斤": "kg", "斤": "jin", "毫克": "mg", "吨": "tonnes",
    "噸": "tonnes", "升": "liters", "公升": "liters", "毫升": "ml", "秒": "seconds", "秒钟": "seconds",
    "秒鐘": "seconds", "分": "minutes", "分钟": "minutes", "分鐘": "minutes", "小时": "hours", "小時": "hours",
    "时": "hours", "天": "days", "日": "days", "周": "weeks", "週": "weeks", "星期": "weeks", "个月": "months",
    "個月": "months", "月": "months",
    "年": "years", "岁": "years", "歲": "years", "度": "degrees", "平方米": "square m", "平方公尺": "square m",
    "平方厘米": "square cm", "平方公分": "square cm", "平方分米": "square dm", "平方毫米": "square mm",
    "平方千米": "square km", "平方公里": "square km", "立方米": "cubic m", "立方厘米": "cubic cm",
    "立方分米": "cubic dm",
    "公顷": "hectares", "公頃": "hectares", "千米/时": "km/h", "千米/小时": "km/h", "公里/小时": "km/h", "米/秒": "m/s",
    "个": "units", "個": "units", "只": "units", "隻": "units", "种": "units", "種": "units", "次": "units",
    "名": "units",
    "位": "units", "条": "units", "條": "units", "本": "units", "张": "units", "張": "units", "件": "units",
    "支": "units", "枝": "units", "棵": "units", "辆": "units", "輛": "units", "台": "units", "臺": "units",
    "间": "units", "間": "units", "头": "units", "頭": "units", "颗": "units", "顆": "units", "朵": "units",
    "人": "people", "倍": "units", "道": "units", "排": "units", "组": "units", "組": "units", "对": "units",
    "页": "pages", "頁": "pages", "箱": "units", "袋": "units", "瓶": "units", "盒": "units", "块儿": "units",
    "单位": "units", "單位": "units", "平方单位": "square units",
}  # fmt: skip
_NAMES = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_IN_TEXT = re.compile(rf"\\(?:text|mathrm|mbox|rm)\s*+\{{\s*+((?:{HAN}|/){{1,8}})\s*+\}}")
_MEASURED = re.compile(
    rf"(?P<behind>[0-9\])}}%!$])\s*+(?P<scale>[万萬亿億]|[千百](?!米|克|瓦|卡)){{0,1}}(?P<unit>{_NAMES})?(?P<noun>{HAN}{{0,4}})"
)
_DATE = re.compile(r"(?:(\d{4})\s*+年\s*+)?(\d{1,2})\s*+月\s*+(\d{1,2})\s*+[日号號]")
_FRACTION = re.compile(f"({_NUMERAL}{{1,12}}|[0-9]{{1,9}})分之({_NUMERAL}{{1,12}}|[0-9]{{1,9}})")
_WHOLE = re.compile(rf"\s*+([负負])?({_NUMERAL}{{1,20}})(?:[点點]([〇零一二三四五六七八九]{{1,20}}))?")
_JOINED = re.compile(r"(?<=[0-9A-Za-z)}$])\s?(?:(或者?)|[和与與及])\s?(?=[0-9A-Za-z(\\$-])")
_CHANGES = re.compile("[或不和与與至到约約多余餘几幾以]")
_PLAIN_WORDS = {
    "无解": "no solution", "無解": "no solution", "空集": "empty set", "全体实数": "all real numbers",
    "全體實數": "all real numbers", "是": "yes", "否": "no", "对": "true", "對": "true", "错": "false", "錯": "false",
    "正确": "true", "正確": "true", "错误": "false", "錯誤": "false",
}  # fmt: skip


def translated(text: str) -> str:
    """Text with its Chinese numerals, scales and measure words as `\\text{…}` in English, as far as they are known."""
    if (word := _PLAIN_WORDS.get(text.strip(" 。.$"))) is not None:
        return word
    text = _IN_TEXT.sub(r"\1", text)
    text = _DATE.sub(lambda m: f"{m[1] or ''} {_MONTHS.split()[(int(m[2]) - 1) % 12]} {m[3]}", text)
    text = _FRACTION.sub(lambda m: _fraction(m[1], m[2]), text)
    whole = _WHOLE.match(text)
    if whole is not None and (value := number(whole[2])) is not None and not _NUMERAL_WORD.match(text, whole.end()):
        decimals = "." + "".join(str(_DIGITS[c]) for c in whole[3]) if whole[3] else ""
        text = f"{'-' if whole[1] else ''}{value}{decimals}{text[whole.end() :]}"
    return _MEASURED.sub(_measured, _JOINED.sub(lambda m: " or " if m[1] else " and ", text))


_NUMERAL_WORD = re.compile(f"{_NUMERAL}|边|邊|角形")
_MONTHS = "January February March April May June July August September October November December"


def _fraction(below: str, above: str) -> str:
    parts = [int(part) if part.isascii() else number(part) for part in (above, below)]
    return rf"\frac{{{parts[0]}}}{{{parts[1]}}}" if None not in parts and parts[1] else f"{below}分之{above}"


def _measured(match: re.Match[str]) -> str:
    scale, unit, noun = match["scale"], match["unit"], match["noun"]
    if not (scale or unit or noun):
        return match[0]
    if _CHANGES.search(noun):
        return match[0]
    words = [_SCALES[scale]] if scale else []
    if unit:
        words.append(_UNITS[unit])
    elif noun:
        words.append("units")
    return rf"{match['behind']} \text{{ {' '.join(words)} }} "


def number(numeral: str) -> int | None:
    """The value of a numeral such as 三百二十; None for what is none."""
    if all(c in _DIGITS for c in numeral):
        return int("".join(str(_DIGITS[c]) for c in numeral))
    total = part = digit = 0
    for c in numeral:
        if c in _DIGITS:
            digit = _DIGITS[c]
        elif c in _POWERS:
            part += (digit or 1) * _POWERS[c]
            digit = 0
        else:
            total = (total + part + digit) * _MYRIADS[c]
            part = digit = 0
    value = Fraction(total + part + digit)
    return value.numerator if numeral[0] not in _MYRIADS else None
