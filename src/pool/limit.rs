//! `maxUnavailable`: how many nodes of a pool may be unavailable at a time.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A value that is no limit. Names the field and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "spec.maxUnavailable: `{value}` is {problem}; give a number of nodes, or a percentage of the pool such as \"20%\""
)]
pub struct Invalid {
    /// As written.
    value: String,
    /// What is wrong with it.
    problem: &'static str,
}

/// The limit of a pool of `size` nodes: at least 1. A percentage is rounded down.
///
/// Absent, 0 and `0%` mean 1, as published: a pool that may never lose a node would never be updated.
pub fn max_unavailable(value: Option<&IntOrString>, size: usize) -> Result<usize, Invalid> {
    let limit = match value {
        None => 1,
        Some(IntOrString::Int(number)) => {
            let problem = |_| Invalid { value: number.to_string(), problem: "negative" };
            usize::try_from(*number).map_err(problem)?
        }
        Some(IntOrString::String(text)) => {
            let problem = |problem| Invalid { value: text.clone(), problem };
            let digits = text.strip_suffix('%').ok_or_else(|| problem("neither a number nor a percentage"))?;
            if digits.starts_with('-') {
                return Err(problem("negative"));
            }
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(problem("neither a number nor a percentage"));
            }
            let percent: u32 = digits.parse().map_err(|_| problem("out of range"))?;
            let nodes = u128::from(percent) * size as u128 / 100;
            usize::try_from(nodes).unwrap_or(usize::MAX)
        }
    };
    Ok(limit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, size: usize) -> Result<usize, Invalid> {
        max_unavailable(Some(&IntOrString::String(text.to_owned())), size)
    }

    #[test]
    fn half_of_eleven_is_five_not_six() {
        // every size and every percentage, against the definition.
        for size in 1..=20_usize {
            for percent in 1..=100_usize {
                let limit = of(&format!("{percent}%"), size).unwrap();
                assert!(limit >= 1, "{percent}% of {size}");
                assert!(limit == 1 || limit * 100 <= size * percent, "{percent}% of {size} gave {limit}");
                assert!((limit + 1) * 100 > size * percent, "{percent}% of {size} gave only {limit}");
            }
        }
        assert_eq!(of("50%", 11), Ok(5));
    }

    #[test]
    fn absent_and_zero_mean_one() {
        assert_eq!(max_unavailable(None, 5), Ok(1));
        assert_eq!(max_unavailable(Some(&IntOrString::Int(0)), 5), Ok(1));
        assert_eq!(of("0%", 5), Ok(1));
        assert_eq!(of("100%", 0), Ok(1));
        assert_eq!(max_unavailable(Some(&IntOrString::Int(7)), 5), Ok(7));
        assert_eq!(of("150%", 10), Ok(15));
    }

    #[test]
    fn a_value_that_is_no_limit_is_named_with_its_field() {
        //
        for text in ["", "%", "5", "-5%", "abc", "50 percent", "40 %", "1.5%", "+5%", "99999999999999999999%"] {
            let message = of(text, 3).unwrap_err().to_string();
            assert!(message.contains("spec.maxUnavailable") && message.contains(&format!("`{text}`")), "{message}");
        }
        let message = max_unavailable(Some(&IntOrString::Int(-1)), 3).unwrap_err().to_string();
        assert!(message.contains("spec.maxUnavailable") && message.contains("`-1` is negative"), "{message}");
    }
}
