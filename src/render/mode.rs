//! Permission bits as people write them: in octal, in decimal, or in one of them and meant in the other.

/// Bits that a mode has: permissions, setuid, setgid and sticky.
pub const ALL: u32 = 0o7777;

/// The kind of a regular file, which `stat` and git print in front of the permission bits.
const REGULAR: u32 = 0o100_000;

/// Whether people write such a mode: the owner can read, and nobody may do more than the one before.
///
/// 420 is 0o644 and usual; 644 is 0o1204 and is not, while 0o644 is: so 644 was meant in octal.
fn is_usual(bits: u32) -> bool {
    let (owner, group, other) = (bits >> 6 & 7, bits >> 3 & 7, bits & 7);
    let known = |digit: u32| matches!(digit, 0 | 1 | 4 | 5 | 6 | 7);
    owner & 4 != 0 && group & !owner == 0 && other & !group == 0 && [owner, group, other].into_iter().all(known)
}

/// The mode, if the digits of a number of a source were probably meant in octal, and the number is none that is usual.
pub fn meant_in_octal(number: i128) -> Option<u32> {
    if u32::try_from(number).is_ok_and(|bits| bits <= ALL && is_usual(bits)) {
        return None;
    }
    let digits = number.to_string();
    let read = u32::from_str_radix(&digits, 8).ok().filter(|_| digits.len() >= 3);
    // What stat or git print: with the kind of file, in octal or as the number that this is.
    let whole = [read, u32::try_from(number).ok()];
    let of_file = whole.into_iter().flatten().find(|bits| bits & !ALL == REGULAR).map(|bits| bits & ALL);
    of_file.or(read).filter(|bits| *bits <= ALL && is_usual(*bits))
}

/// The bits of a mode that is typed as `chmod` takes it, in octal whatever stands in front. What is no octal number, or a
/// usual mode only when it is read in decimal, is an error that says what to write.
pub fn octal(text: &str) -> Result<u32, String> {
    let prefixed = text.strip_prefix("0o").or_else(|| text.strip_prefix("0O"));
    let digits = prefixed.unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let bits = is_number.then(|| u32::from_str_radix(digits, 8).ok()).flatten();
    // Only without a 0 in front can it be decimal.
    let decimal = digits.parse::<u32>().ok().filter(|_| is_number && prefixed.is_none() && !digits.starts_with('0'));
    let meant = decimal.filter(|meant| *meant <= ALL && is_usual(*meant));
    match (bits, meant) {
        // 0o511 is usual, and rare; 511 is what a program prints for 0o777.
        (Some(bits), Some(meant)) if !is_usual(bits) || meant == 0o777 => Err(format!(
            "a mode is octal, and 0{bits:o} is hardly meant: write 0{meant:o}, which is {text} in decimal, or 0o{digits} if it is"
        )),
        (Some(bits), _) => Ok(bits),
        (None, Some(meant)) => Err(format!("a mode is octal: write 0{meant:o}, which is {text} in decimal")),
        (None, None) => Err("write permission bits in octal, such as 0644".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_modes_that_were_meant_in_octal_are_told_from_those_that_were_not() {
        for mode in [400, 440, 444, 555, 600, 640, 644, 660, 664, 666, 700, 711, 750, 755, 775, 777, 1777, 4755, 2755] {
            let octal = u32::from_str_radix(&mode.to_string(), 8).unwrap();
            assert_eq!(meant_in_octal(mode), Some(octal), "{mode}");
        }
        let meant = [0o400, 0o440, 0o444, 0o555, 0o600, 0o640, 0o644, 0o660, 0o664, 0o700, 0o755, 0o777, 0o1777, 0];
        for mode in meant {
            assert_eq!(meant_in_octal(mode), None, "{mode} is 0o{mode:o}");
        }
    }

    #[test]
    fn no_mode_is_suggested_that_nobody_would_write() {
        for mode in [0o10644, 10644, 4516, 4000, 1234, 99999, 26_900, -644, 64, i128::MAX] {
            assert_eq!(meant_in_octal(mode), None, "{mode}");
        }
        // As git writes them, and as a program prints st_mode.
        for (mode, meant) in [(100_644, 0o644), (100_755, 0o755), (0o100_644, 0o644), (0o100_600, 0o600)] {
            assert_eq!(meant_in_octal(mode), Some(meant), "{mode}");
        }
        assert_eq!(meant_in_octal(0o040_755), None, "a folder's");
    }

    #[test]
    fn a_typed_mode_is_octal_however_it_is_written() {
        for text in ["644", "0644", "0o644", "0O644", "00644"] {
            assert_eq!(octal(text), Ok(0o644), "{text}");
        }
        for (text, bits) in
            [("400", 0o400), ("444", 0o444), ("500", 0o500), ("4755", 0o4755), ("1777", 0o1777), ("0", 0)]
        {
            assert_eq!(octal(text), Ok(bits), "{text}");
        }
        // With a 0 in front no doubt is left, odd as it may be.
        for text in ["0420", "0o420"] {
            assert_eq!(octal(text), Ok(0o420), "{text}");
        }
        for text in ["", "0o", "8", "u+x", "0x1a4", "-1", "+644", "77777777777777777777", "٦٤٤"] {
            assert_eq!(octal(text), Err("write permission bits in octal, such as 0644".to_owned()), "{text}");
        }
    }

    #[test]
    fn a_typed_mode_that_is_usual_only_in_decimal_is_an_error_with_the_octal_one() {
        for (text, meant) in [
            ("420", "0644"),
            ("493", "0755"),
            ("511", "0777"),
            ("384", "0600"),
            ("256", "0400"),
            ("288", "0440"),
            ("292", "0444"),
            ("416", "0640"),
            ("436", "0664"),
            ("448", "0700"),
            ("488", "0750"),
        ] {
            let error = octal(text).unwrap_err();
            assert!(error.contains(&format!("write {meant}, which is {text} in decimal")), "{text}: {error}");
            // What it offers is taken.
            assert!(octal(meant).is_ok());
            let own = error.split_once(", or ").and_then(|(_, rest)| rest.split(' ').next());
            assert_eq!(own.is_none(), octal(&format!("0o{text}")).is_err(), "{text}");
            assert!(own.is_none_or(|own| octal(own).is_ok()), "{text}: {error}");
        }
    }
}
