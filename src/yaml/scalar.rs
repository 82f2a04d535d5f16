//! What a scalar stands for, by the rules of kubectl's YAML reader: YAML 1.1 words, and numbers as Go reads them.
//!
//! `0644`, `0o644`, `0x1A4` and `4_20` are 420; `yes`, `on` and `y` are true; `1:20` and dates are strings; `08` is 8.

use base64::Engine as _;
use serde_json::{Number, Value};

/// The tag of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// None, on a plain scalar: the text decides.
    Implicit,
    /// None, on a quoted or block scalar.
    Quoted,
    /// `!!name`.
    Core(&'a str),
    /// Any other: the scalar is a string.
    Foreign,
}

/// A scalar's value before it becomes JSON, which has no infinities.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Flag(bool),
    Whole(i64),
    /// Above the range of `Whole`.
    Large(u64),
    Fraction(f64),
    Text(String),
}

/// Why a scalar has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("the value does not fit its tag")]
    Tag,
    #[error("the !!binary value is not base64")]
    Binary,
    #[error("infinity and not-a-number are no values in JSON")]
    NotFinite,
    #[error("this cannot be the key of a mapping")]
    Key,
}

/// The value of `text`.
pub(super) fn resolve(text: &str, tag: Tag<'_>) -> Result<Scalar, Error> {
    let string = || Scalar::Text(text.to_owned());
    let name = match tag {
        Tag::Implicit => return Ok(read(text)),
        Tag::Quoted | Tag::Foreign => return Ok(string()),
        Tag::Core(name) => name,
    };
    let value = read(text);
    match (name, &value) {
        ("null", Scalar::Null)
        | ("bool", Scalar::Flag(_))
        | ("float", Scalar::Fraction(_))
        | ("int", Scalar::Whole(_) | Scalar::Large(_)) => Ok(value),
        #[expect(clippy::cast_precision_loss, reason = "that is what the tag asks for")]
        ("float", Scalar::Whole(number)) => Ok(Scalar::Fraction(*number as f64)),
        ("timestamp", Scalar::Text(_)) if !looks_like_date(text) => Err(Error::Tag),
        ("timestamp", value) if !matches!(value, Scalar::Text(_)) => Err(Error::Tag),
        ("null" | "bool" | "int" | "float", _) => Err(Error::Tag),
        ("binary", _) => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text.replace(['\n', '\r'], ""))
                .map_err(|_| Error::Binary)?;
            Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()))
        }
        // `!!str`, dates (which JSON has no type for), and names that mean nothing here.
        _ => Ok(string()),
    }
}

/// The value of a plain scalar.
fn read(text: &str) -> Scalar {
    let number = match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Flag(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Flag(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Fraction(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Fraction(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Fraction(f64::NEG_INFINITY),
        _ => match text.as_bytes()[0] {
            b'.' if separates_digits(text) => fraction(&text.replace('_', "")),
            b'0'..=b'9' | b'+' | b'-' => {
                let plain = text.replace('_', "");
                whole(&plain).or_else(|| fraction(&plain)).or_else(|| signed_binary(&plain))
            }
            _ => None,
        },
    };
    number.unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// An integer with a base prefix; a leading zero alone means octal.
fn whole(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', _, ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // The standard reader would take another sign.
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Scalar::Whole);
    }
    match i64::try_from(magnitude) {
        Ok(number) => Some(Scalar::Whole(number)),
        // Go reads the unsigned range without a sign only.
        Err(_) => (!text.starts_with('+')).then_some(Scalar::Large(magnitude)),
    }
}

/// A decimal number with a point or an exponent, or digits that are no integer (`08`).
fn fraction(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some((before, after)) => digits(before) && digits(after) && !(before.is_empty() && after.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_ok = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    if !(mantissa_ok && exponent_ok) {
        return None;
    }
    // What is too large for a float stays a string.
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Scalar::Fraction)
}

/// `0b-1` is -1: an oddity that is cheap to share.
fn signed_binary(text: &str) -> Option<Scalar> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2).ok().map(Scalar::Whole)
}

/// Whether each underscore stands between digits.
fn separates_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    bytes.iter().enumerate().all(|(i, b)| *b != b'_' || (digit(i.checked_sub(1)) && digit(Some(i + 1))))
}

/// Four digits, a month and a day, and perhaps a time.
fn looks_like_date(text: &str) -> bool {
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    };
    let in_range = |part: &str, range: std::ops::RangeInclusive<u32>| {
        matches!(part.len(), 1 | 2) && part.parse().is_ok_and(|number| range.contains(&number))
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    year.len() == 4
        && year.bytes().all(|b| b.is_ascii_digit())
        && in_range(month, 1..=12)
        && in_range(day, 1..=31)
        && time.bytes().all(|b| b.is_ascii_digit() || b":.+-Zz".contains(&b))
}

impl Scalar {
    /// The value as JSON. Integral floats are integers there, as Go writes them: `420.0` and `1e3` are 420 and 1000.
    pub(super) fn into_json(self) -> Result<Value, Error> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Flag(flag) => Value::Bool(flag),
            Self::Whole(number) => Value::from(number),
            Self::Large(number) => Value::from(number),
            Self::Fraction(number) => Value::Number(fold(number).ok_or(Error::NotFinite)?),
            Self::Text(text) => Value::String(text),
        })
    }

    /// The key that a scalar is in JSON.
    pub(super) fn into_key(self) -> Result<String, Error> {
        Ok(match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Fraction(number) => short_float(number),
            Self::Text(text) => text,
            // As for kubectl.
            Self::Null | Self::Large(_) => return Err(Error::Key),
        })
    }
}

/// A number as Go's JSON has it; none for infinities.
pub(super) fn fold(number: f64) -> Option<Number> {
    // Up to here an integral float is written without exponent, and is an integer to any reader that has room for it.
    const WRITTEN_OUT: f64 = 1e21;
    if number.fract() == 0.0 && number.abs() < WRITTEN_OUT {
        // The shortest digits, filled up with zeros: above 2^53 not always the float's exact value.
        let written = number.abs().to_string();
        if let Ok(whole) = written.parse::<u64>() {
            return match (number < 0.0, 0_i64.checked_sub_unsigned(whole)) {
                (false, _) => Some(Number::from(whole)),
                (true, Some(negative)) => Some(Number::from(negative)),
                (true, None) => Number::from_f64(number),
            };
        }
    }
    Number::from_f64(number)
}

/// A float as a key: as short as single precision allows, with an exponent from seven digits on.
fn short_float(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "kubectl's reader does so too")]
    let number = number as f32;
    if number.is_nan() {
        return ".nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        number.to_string()
    } else {
        format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}
