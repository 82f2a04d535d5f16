//! The SSH keys in a file of keys, as `ssh-keygen` writes a `.pub` file and sshd reads `authorized_keys`.

use super::Error;
use crate::render::ignition::ssh_key;

/// The keys of a file, one a line; blank lines and comments are none. `what` names the file in the error.
pub fn keys(what: &str, bytes: &[u8]) -> Result<Vec<String>, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error(format!("{what} is not UTF-8 text; give the .pub file that ssh-keygen wrote")))?;
    // Nothing of it may get into a cluster, so it is not left to the findings.
    if text.contains("PRIVATE KEY-----") {
        return Err(Error(format!("{what} is a private key; give the .pub file beside it")));
    }
    let mut keys = Vec::new();
    for (i, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // They would be the only keys of their user: a file taken by mistake locks people out.
        if ssh_key::check(line).is_err() {
            return Err(Error(format!("{what}:{}: is no public key; a line is TYPE BASE64 [COMMENT]", i + 1)));
        }
        keys.push(line.to_owned());
    }
    if keys.is_empty() {
        return Err(Error(format!("{what} holds no key; give the .pub file that ssh-keygen wrote")));
    }
    Ok(keys)
}
