#compdef mcx

autoload -U is-at-least

_mcx() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_mcx_commands" \
"*::: :->mcx" \
&& ret=0
    case $state in
    (mcx)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:mcx-command-$line[1]:"
        case $line[1] in
            (render)
_arguments "${_arguments_options[@]}" : \
'--pool=[Pool to render]:POOL:_default' \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'-o+[What to print]:OUTPUT:((yaml\:"The object as YAML"
json\:"The object as JSON"
name\:"Only the name of the rendered config"))' \
'--output=[What to print]:OUTPUT:((yaml\:"The object as YAML"
json\:"The object as JSON"
name\:"Only the name of the rendered config"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(validate)
_arguments "${_arguments_options[@]}" : \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'-o+[How to print findings]:OUTPUT:((text\:"Each with the line it is about and a caret"
json\:"One JSON object"
github\:"Annotations for the log of a GitHub workflow"))' \
'--output=[How to print findings]:OUTPUT:((text\:"Each with the line it is about and a caret"
json\:"One JSON object"
github\:"Annotations for the log of a GitHub workflow"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'--strict[Let warnings count as errors do for the exit code]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(controller)
_arguments "${_arguments_options[@]}" : \
'--namespace=[Namespace of the controller, the daemons and the lease]:NAMESPACE:_default' \
'--settle=[Render when no source has changed for this long]:TIME:_default' \
'--settle-limit=[Render at the latest this long after the first change]:TIME:_default' \
'--drain-threshold=[A drain that takes longer is told about; it goes on]:TIME:_default' \
'--keep-rendered=[Unused rendered configs kept per pool]:N:_default' \
'--listen=[Address of /metrics, /healthz and /readyz]:ADDR:_default' \
'--lease-duration=[For how long a leader leads after a renewal; it renews five times as often]:TIME:_default' \
'--kubeconfig=[Kubeconfig; without it the pod'\''s service account, or else as kubectl finds it]:FILE:_files' \
'--context=[Context of the kubeconfig]:NAME:_default' \
'--pod=[Name of the pod this runs in]:POD:_default' \
'--node=[Name of the node this runs on]:NODE:_default' \
'--log-format=[Form of log lines]:FORMAT:((text\:"For people"
json\:"One JSON object a line"))' \
'--log=[What to log\: a level, or \`module=level\` pairs as in \`RUST_LOG\`]:FILTER:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(daemon)
_arguments "${_arguments_options[@]}" : \
'--root=[The node'\''s root directory]:DIR:_files' \
'--node-name=[Name of the node this runs on]:NAME:_default' \
'--kubeconfig=[Kubeconfig; without it the pod'\''s service account]:FILE:_files' \
'--listen=[Address of /metrics, /healthz and /readyz]:ADDR:_default' \
'--sweep=[Compare the whole disk this often, besides every event]:TIME:_default' \
'--watch-time=[Watch units for this long after the last action]:TIME:_default' \
'--log-format=[Form of log lines]:FORMAT:((text\:"For people"
json\:"One JSON object a line"))' \
'--log=[What to log\: a level, or \`module=level\` pairs as in \`RUST_LOG\`]:FILTER:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(crds)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
':shell -- Shell to complete in:((bash\:"bash"
zsh\:"zsh"
fish\:"fish"))' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':folder -- Folder to write the pages into; made when absent:_files' \
&& ret=0
;;
(reference)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':folder -- Folder to write the pages into; made when absent:_files' \
&& ret=0
;;
(host-exec)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':root -- The node'\''s root:_files' \
'*::argv -- The command and its arguments, after `--`:_default' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_mcx_commands] )) ||
_mcx_commands() {
    local commands; commands=(
'render:Print the rendered config of a pool' \
'validate:Find all that is wrong or odd in sources, pools and policies' \
'controller:Run the cluster controller' \
'daemon:Run the daemon of one node' \
'crds:Print the custom resource definitions' \
'completions:Print a script for a shell to complete mcx on TAB' \
'man:Write manual pages' \
'reference:Write the reference pages' \
'host-exec:Run a command inside a node'\''s root (used by the daemon)' \
    )
    _describe -t commands 'mcx commands' commands "$@"
}
(( $+functions[_mcx__subcmd__completions_commands] )) ||
_mcx__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'mcx completions commands' commands "$@"
}
(( $+functions[_mcx__subcmd__controller_commands] )) ||
_mcx__subcmd__controller_commands() {
    local commands; commands=()
    _describe -t commands 'mcx controller commands' commands "$@"
}
(( $+functions[_mcx__subcmd__crds_commands] )) ||
_mcx__subcmd__crds_commands() {
    local commands; commands=()
    _describe -t commands 'mcx crds commands' commands "$@"
}
(( $+functions[_mcx__subcmd__daemon_commands] )) ||
_mcx__subcmd__daemon_commands() {
    local commands; commands=()
    _describe -t commands 'mcx daemon commands' commands "$@"
}
(( $+functions[_mcx__subcmd__host-exec_commands] )) ||
_mcx__subcmd__host-exec_commands() {
    local commands; commands=()
    _describe -t commands 'mcx host-exec commands' commands "$@"
}
(( $+functions[_mcx__subcmd__man_commands] )) ||
_mcx__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'mcx man commands' commands "$@"
}
(( $+functions[_mcx__subcmd__reference_commands] )) ||
_mcx__subcmd__reference_commands() {
    local commands; commands=()
    _describe -t commands 'mcx reference commands' commands "$@"
}
(( $+functions[_mcx__subcmd__render_commands] )) ||
_mcx__subcmd__render_commands() {
    local commands; commands=()
    _describe -t commands 'mcx render commands' commands "$@"
}
(( $+functions[_mcx__subcmd__validate_commands] )) ||
_mcx__subcmd__validate_commands() {
    local commands; commands=()
    _describe -t commands 'mcx validate commands' commands "$@"
}

if [ "$funcstack[1]" = "_mcx" ]; then
    _mcx "$@"
else
    compdef _mcx mcx
fi
