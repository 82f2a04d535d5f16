#!/bin/bash
# install.sh BINARY DIR: puts mcx and what belongs to it below DIR, such as /usr/local.
# install.sh --remove DIR: takes exactly that away again.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:?BINARY or --remove}
dir=${2:?DIR}

pairs() { # FILE of this tree, where it goes
  echo "build/kubectl_complete-mcx bin/kubectl_complete-mcx"
  echo "docs/completions/mcx.bash share/bash-completion/completions/mcx"
  echo "docs/completions/mcx.zsh share/zsh/site-functions/_mcx"
  echo "docs/completions/mcx.fish share/fish/vendor_completions.d/mcx.fish"
  for page in docs/man/*.1; do echo "$page share/man/man1/${page##*/}"; done
}

if [ "$binary" = --remove ]; then
  while read -r _ to; do rm -f "$dir/$to"; done < <(pairs)
  rm -f "$dir/bin/mcx" "$dir/bin/kubectl-mcx"
  exit
fi
install -D -m 0755 "$binary" "$dir/bin/mcx"
ln -sfn mcx "$dir/bin/kubectl-mcx"
while read -r from to; do
  mode=0644
  [ ! -x "$from" ] || mode=0755
  install -D -m $mode "$from" "$dir/$to"
done < <(pairs)
