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
            (new)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_mcx__subcmd__new_commands" \
"*::: :->new" \
&& ret=0

    case $state in
    (new)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:mcx-new-command-$line[1]:"
        case $line[1] in
            (file)
_arguments "${_arguments_options[@]}" : \
'--path=[Where it is on the nodes]:PATH:_default' \
'--from=[File with the contents, or - for standard input]:FILE|-:_files' \
'--mode=[Permission bits in octal, such as 0600 \[default\: those of the file; 0644 from standard input\]]:MODE:_default' \
'--user=[Owner on the nodes \[default\: root\]]:NAME|ID:_default' \
'--group=[Group on the nodes \[default\: root\]]:NAME|ID:_default' \
'*--role=[Pool whose nodes get it; given more than once, one MachineConfig for each]:POOL:_default' \
'*-f+[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'*--filename=[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'--name=[Name of the MachineConfig \[default\: 99-ROLE-NAME, after what it is made from\]]:NAME:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(unit)
_arguments "${_arguments_options[@]}" : \
'--from=[File with the unit'\''s text, or - for standard input]:FILE|-:_files' \
'*--role=[Pool whose nodes get it; given more than once, one MachineConfig for each]:POOL:_default' \
'*-f+[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'*--filename=[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'--name=[Name of the MachineConfig \[default\: 99-ROLE-NAME, after what it is made from\]]:NAME:_default' \
'(--disable)--enable[Enable it]' \
'--disable[Disable it]' \
'(--unmask)--mask[Mask it]' \
'--unmask[Remove a mask]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':unit -- Name of the unit, with its suffix:_default' \
&& ret=0
;;
(dropin)
_arguments "${_arguments_options[@]}" : \
'--from=[File with its text, or - for standard input]:FILE|-:_files' \
'*--role=[Pool whose nodes get it; given more than once, one MachineConfig for each]:POOL:_default' \
'*-f+[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'*--filename=[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'--name=[Name of the MachineConfig \[default\: 99-ROLE-NAME, after what it is made from\]]:NAME:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':unit -- Name of the unit, with its suffix:_default' \
':dropin -- Name of the drop-in\: NAME.conf:_default' \
&& ret=0
;;
(ssh)
_arguments "${_arguments_options[@]}" : \
'*--key=[File with public keys, or - for standard input; may be given more than once]:FILE.pub|-:_files' \
'*--role=[Pool whose nodes get it; given more than once, one MachineConfig for each]:POOL:_default' \
'*-f+[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'*--filename=[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'--name=[Name of the MachineConfig \[default\: 99-ROLE-NAME, after what it is made from\]]:NAME:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(tree)
_arguments "${_arguments_options[@]}" : \
'*--enable=[Enable a unit; may be given more than once]:UNIT:_default' \
'*--disable=[Disable a unit; may be given more than once]:UNIT:_default' \
'*--mask=[Mask a unit; may be given more than once]:UNIT:_default' \
'*--role=[Pool whose nodes get it; given more than once, one MachineConfig for each]:POOL:_default' \
'*-f+[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'*--filename=[File or folder with pools, in which --role is looked up beside master and worker; may be given more than once]:FILE|DIR:_files' \
'--name=[Name of the MachineConfig \[default\: 99-ROLE-NAME, after what it is made from\]]:NAME:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':folder -- The folder\: what is at DIR/etc/motd becomes /etc/motd:_files' \
&& ret=0
;;
(policy)
_arguments "${_arguments_options[@]}" : \
'*--path=[File or folder whose changes cost this; may be given more than once]:PATH:_default' \
'*--unit=[Unit whose changes cost this; may be given more than once]:UNIT:_default' \
'*--reload=[systemctl reload UNIT; may be given more than once]:UNIT:_default' \
'*--restart=[systemctl restart UNIT; may be given more than once]:UNIT:_default' \
'(--daemon-reload --reload --restart --drain --reboot)--none[Nothing]' \
'--daemon-reload[systemctl daemon-reload]' \
'(--reboot)--drain[A drain of the node]' \
'(--daemon-reload --reload --restart)--reboot[A drain and a reboot of the node]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
        esac
    ;;
esac
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
(render)
_arguments "${_arguments_options[@]}" : \
'--pool=[Pool to render]:POOL:_default' \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'-o+[What to print; the object as YAML without it]:OUTPUT:((yaml\:"The object as YAML"
json\:"The object as JSON"
name\:"Only the name of the rendered config"))' \
'--output=[What to print; the object as YAML without it]:OUTPUT:((yaml\:"The object as YAML"
json\:"The object as JSON"
name\:"Only the name of the rendered config"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'--explain[Tell, instead of the object, which source wins for each field of each item and which are hidden]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(plan)
_arguments "${_arguments_options[@]}" : \
'*-f+[File or folder that is applied to the cluster, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder that is applied to the cluster, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--from=[File or folder with the state before; without it, a cluster that has only what mcx creates itself; may be given more than once]:FILE|DIR|-:_files' \
'*--to=[File or folder with the state after, planned without a cluster; may be given more than once]:FILE|DIR|-:_files' \
'--kubeconfig=[Kubeconfig; without it as kubectl finds it, or else the pod'\''s service account]:FILE:_files' \
'--context=[Context of the kubeconfig]:NAME:_default' \
'*--pool=[Only this pool; may be given more than once]:POOL:_default' \
'-n+[Namespace of mcx]:NAMESPACE:_default' \
'--namespace=[Namespace of mcx]:NAMESPACE:_default' \
'-o+[What to print]:OUTPUT:((text\:"For people"
json\:"All of it, for programs"))' \
'--output=[What to print]:OUTPUT:((text\:"For people"
json\:"All of it, for programs"))' \
'--prune[With -f\: sources of the cluster that are not in the input count as deleted; 00-master and 00-worker stay]' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'--diff[Add the lines that differ, decoded]' \
'--exit-code[Say by the exit code what the change costs]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
'*::rendered -- Two rendered configs of the cluster\: from the first to the second:_default' \
&& ret=0
;;
(diff)
_arguments "${_arguments_options[@]}" : \
'*-f+[Compare the disk with these sources or this rendered config; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[Compare the disk with these sources or this rendered config; may be given more than once]:FILE|DIR|-:_files' \
'--pool=[Only this pool; beside a disk, by default that of its current config]:POOL:_default' \
'(-f --filename)--config=[Compare the disk with this rendered config\: one that the disk keeps, or, with --kubeconfig or --context, of a cluster]:NAME:_default' \
'--root=[Root directory of the disk]:DIR:_files' \
'--kubeconfig=[Kubeconfig; without it as kubectl finds it, or else the pod'\''s service account]:FILE:_files' \
'--context=[Context of the kubeconfig]:NAME:_default' \
'-o+[What to print]:OUTPUT:((text\:"For people, and for patch"
json\:"For programs"))' \
'--output=[What to print]:OUTPUT:((text\:"For people, and for patch"
json\:"For programs"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'--stat[One line an item with the number of lines, and a total]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
'*::sides -- Two files or folders to compare, each with sources or with rendered configs:_files' \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'--pool=[Only this pool]:POOL:_default' \
'(-f --filename -R --recursive --pool)--rule=[Explain a rule by the id that a finding ends with]:RULE:_default' \
'-o+[What to print]:OUTPUT:((text\:"For people"
json\:"For programs"))' \
'--output=[What to print]:OUTPUT:((text\:"For people"
json\:"For programs"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
'::item -- A path, a unit, a unit and its drop-in, or boot:_default' \
&& ret=0
;;
(cat)
_arguments "${_arguments_options[@]}" : \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'--pool=[Pool whose nodes are meant; needed only where pools differ]:POOL:_default' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':item -- Which contents:_default' \
&& ret=0
;;
(apply)
_arguments "${_arguments_options[@]}" : \
'--root=[Folder to change, laid out like a node'\''s root]:DIR:_files' \
'--pool=[Pool whose nodes have what the folder shall have]:POOL:_default' \
'*-f+[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'*--filename=[File or folder with the objects, or - for standard input; may be given more than once]:FILE|DIR|-:_files' \
'-o+[What to print]:OUTPUT:((text\:"For people"
json\:"For programs"))' \
'--output=[What to print]:OUTPUT:((text\:"For people"
json\:"For programs"))' \
'-R[Read folders with all that is below them]' \
'--recursive[Read folders with all that is below them]' \
'(--pool -f --filename -R --recursive)--withdraw[Give everything back\: the folder becomes what it was before mcx]' \
'--dry-run[Print the steps and change nothing]' \
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
'--volume-detach=[After the pods are gone, wait this long for the node'\''s volumes to be detached; 0s\: do not wait]:TIME:_default' \
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
'--guard-timeout=[Undo an update whose actions left the node without its kubelet or the API server for this long]:TIME:_default' \
'--kubelet-healthz=[Address at which the kubelet serves /healthz]:ADDR:_default' \
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
(guard)
_arguments "${_arguments_options[@]}" : \
'--root=[The node'\''s root directory]:DIR:_files' \
'--log-format=[Form of log lines]:FORMAT:((text\:"For people"
json\:"One JSON object a line"))' \
'--log=[What to log\: a level, or \`module=level\` pairs as in \`RUST_LOG\`]:FILTER:_default' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
        esac
    ;;
esac
}

(( $+functions[_mcx_commands] )) ||
_mcx_commands() {
    local commands; commands=(
'new:Make a MachineConfig from plain files, or the policy for it' \
'validate:Find all that is wrong or odd in sources, pools and policies' \
'render:Print the rendered config of a pool' \
'plan:Say what a change would do to the nodes\: what changes, what it costs, who goes when' \
'diff:Show what differs between two configs, or between a disk and a config' \
'explain:Tell where an item comes from and what a change of it costs, or what a rule means' \
'cat:Print the contents of a file, unit or drop-in as they would be on a node' \
'apply:Bring a folder to what a pool'\''s nodes would have, without a cluster' \
'controller:Run the cluster controller' \
'daemon:Run the daemon of one node' \
'crds:Print the custom resource definitions' \
'completions:Print a script for a shell to complete mcx on TAB' \
'man:Write manual pages' \
'reference:Write the reference pages' \
'host-exec:Run a command inside a node'\''s root (used by the daemon)' \
'guard:Undo an update that takes its node away from its cluster (run by a unit that the daemon leaves)' \
    )
    _describe -t commands 'mcx commands' commands "$@"
}
(( $+functions[_mcx__subcmd__apply_commands] )) ||
_mcx__subcmd__apply_commands() {
    local commands; commands=()
    _describe -t commands 'mcx apply commands' commands "$@"
}
(( $+functions[_mcx__subcmd__cat_commands] )) ||
_mcx__subcmd__cat_commands() {
    local commands; commands=()
    _describe -t commands 'mcx cat commands' commands "$@"
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
(( $+functions[_mcx__subcmd__diff_commands] )) ||
_mcx__subcmd__diff_commands() {
    local commands; commands=()
    _describe -t commands 'mcx diff commands' commands "$@"
}
(( $+functions[_mcx__subcmd__explain_commands] )) ||
_mcx__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'mcx explain commands' commands "$@"
}
(( $+functions[_mcx__subcmd__guard_commands] )) ||
_mcx__subcmd__guard_commands() {
    local commands; commands=()
    _describe -t commands 'mcx guard commands' commands "$@"
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
(( $+functions[_mcx__subcmd__new_commands] )) ||
_mcx__subcmd__new_commands() {
    local commands; commands=(
'file:A file on the nodes' \
'unit:A systemd unit\: its text, whether it is enabled or masked, or both' \
'dropin:A drop-in of a systemd unit' \
'ssh:SSH keys of user boot' \
'tree:All files of a folder that is laid out like a root' \
'policy:What a change of a file or unit costs a node' \
    )
    _describe -t commands 'mcx new commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__dropin_commands] )) ||
_mcx__subcmd__new__subcmd__dropin_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new dropin commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__file_commands] )) ||
_mcx__subcmd__new__subcmd__file_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new file commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__policy_commands] )) ||
_mcx__subcmd__new__subcmd__policy_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new policy commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__ssh_commands] )) ||
_mcx__subcmd__new__subcmd__ssh_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new ssh commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__tree_commands] )) ||
_mcx__subcmd__new__subcmd__tree_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new tree commands' commands "$@"
}
(( $+functions[_mcx__subcmd__new__subcmd__unit_commands] )) ||
_mcx__subcmd__new__subcmd__unit_commands() {
    local commands; commands=()
    _describe -t commands 'mcx new unit commands' commands "$@"
}
(( $+functions[_mcx__subcmd__plan_commands] )) ||
_mcx__subcmd__plan_commands() {
    local commands; commands=()
    _describe -t commands 'mcx plan commands' commands "$@"
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
