//! The SSH keys in a file of keys, as `ssh-keygen` writes a `.pub` file and sshd reads `authorized_keys`.

use super::Error;

/// The keys of a file, one a line; blank lines and comments are none. `what` names the file in the error.
pub fn keys(what: &str, bytes: &[u8]) -> Result<Vec<String>, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error(format!("{what} is not UTF-8 text; give the .pub file that ssh-keygen wrote")))?;
    // Nothing of it may get into a cluster, so it is not left to the findings.
    if text.contains("PRIVATE KEY-----") {
        return Err(Error(format!("{what} is a private key; give the .pub file beside it")));
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = lines.map(str::to_owned).collect();
    if keys.is_empty() {
        return Err(Error(format!("{what} holds no key; give the .pub file that ssh-keygen wrote")));
    }
    Ok(keys)
}
