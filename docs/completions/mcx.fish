# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_mcx_global_optspecs
    string join \n h/help V/version
end

function __fish_mcx_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_mcx_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_mcx_using_subcommand
    set -l cmd (__fish_mcx_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c mcx -n "__fish_mcx_needs_command" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_needs_command" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "new" -d 'Make a MachineConfig from plain files, or the policy for it'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "validate" -d 'Find all that is wrong or odd in sources, pools and policies'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "render" -d 'Print the rendered config of a pool'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "plan" -d 'Say what a change would do to the nodes: what changes, what it costs, who goes when'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "diff" -d 'Show what differs between two configs, or between a disk and a config'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "explain" -d 'Tell where an item comes from and what a change of it costs, or what a rule means'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "cat" -d 'Print the contents of a file, unit or drop-in as they would be on a node'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "apply" -d 'Bring a folder to what a pool\'s nodes would have, without a cluster'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "controller" -d 'Run the cluster controller'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "daemon" -d 'Run the daemon of one node'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "crds" -d 'Print the custom resource definitions'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "completions" -d 'Print a script for a shell to complete mcx on TAB'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "man" -d 'Write manual pages'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "reference" -d 'Write the reference pages'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "host-exec" -d 'Run a command inside a node\'s root (used by the daemon)'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "guard" -d 'Undo an update that takes its node away from its cluster (run by a unit that the daemon leaves)'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "file" -d 'A file on the nodes'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "unit" -d 'A systemd unit: its text, whether it is enabled or masked, or both'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "dropin" -d 'A drop-in of a systemd unit'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "ssh" -d 'SSH keys of user boot'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "tree" -d 'All files of a folder that is laid out like a root'
complete -c mcx -n "__fish_mcx_using_subcommand new; and not __fish_seen_subcommand_from file unit dropin ssh tree policy" -f -a "policy" -d 'What a change of a file or unit costs a node'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l path -d 'Where it is on the nodes' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l from -d 'File with the contents, or - for standard input' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l mode -d 'Permission bits in octal, such as 0600 [default: those of the file; 0644 from standard input]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l user -d 'Owner on the nodes [default: root]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l group -d 'Group on the nodes [default: root]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l role -d 'Pool whose nodes get it; given more than once, one MachineConfig for each' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -s f -l filename -d 'File or folder with pools, in which --role is looked up beside master and worker; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -l name -d 'Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from file" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l from -d 'File with the unit\'s text, or - for standard input' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l role -d 'Pool whose nodes get it; given more than once, one MachineConfig for each' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -s f -l filename -d 'File or folder with pools, in which --role is looked up beside master and worker; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l name -d 'Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l enable -d 'Enable it'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l disable -d 'Disable it'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l mask -d 'Mask it'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -l unmask -d 'Remove a mask'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from unit" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -l from -d 'File with its text, or - for standard input' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -l role -d 'Pool whose nodes get it; given more than once, one MachineConfig for each' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -s f -l filename -d 'File or folder with pools, in which --role is looked up beside master and worker; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -l name -d 'Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from dropin" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -l key -d 'File with public keys, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -l role -d 'Pool whose nodes get it; given more than once, one MachineConfig for each' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -s f -l filename -d 'File or folder with pools, in which --role is looked up beside master and worker; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -l name -d 'Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from ssh" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -l enable -d 'Enable a unit; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -l disable -d 'Disable a unit; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -l mask -d 'Mask a unit; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -l role -d 'Pool whose nodes get it; given more than once, one MachineConfig for each' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -s f -l filename -d 'File or folder with pools, in which --role is looked up beside master and worker; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -l name -d 'Name of the MachineConfig [default: 99-ROLE-NAME, after what it is made from]' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from tree" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l path -d 'File or folder whose changes cost this; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l unit -d 'Unit whose changes cost this; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l reload -d 'systemctl reload UNIT; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l restart -d 'systemctl restart UNIT; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l none -d 'Nothing'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l daemon-reload -d 'systemctl daemon-reload'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l drain -d 'A drain of the node'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -l reboot -d 'A drain and a reboot of the node'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand new; and __fish_seen_subcommand_from policy" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s o -l output -d 'How to print findings' -r -f -a "text\t'Each with the line it is about and a caret'
json\t'One JSON object'
github\t'Annotations for the log of a GitHub workflow'"
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -l strict -d 'Let warnings count as errors do for the exit code'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand render" -l pool -d 'Pool to render' -r
complete -c mcx -n "__fish_mcx_using_subcommand render" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand render" -s o -l output -d 'What to print; the object as YAML without it' -r -f -a "yaml\t'The object as YAML'
json\t'The object as JSON'
name\t'Only the name of the rendered config'"
complete -c mcx -n "__fish_mcx_using_subcommand render" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand render" -l explain -d 'Tell, instead of the object, which source wins for each field of each item and which are hidden'
complete -c mcx -n "__fish_mcx_using_subcommand render" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand render" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s f -l filename -d 'File or folder that is applied to the cluster, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l from -d 'File or folder with the state before; without it, a cluster that has only what mcx creates itself; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l to -d 'File or folder with the state after, planned without a cluster; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l kubeconfig -d 'Kubeconfig; without it as kubectl finds it, or else the pod\'s service account' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l context -d 'Context of the kubeconfig' -r
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l pool -d 'Only this pool; may be given more than once' -r
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s n -l namespace -d 'Namespace of mcx' -r
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s o -l output -d 'What to print' -r -f -a "text\t'For people'
json\t'All of it, for programs'"
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l prune -d 'With -f: sources of the cluster that are not in the input count as deleted; 00-master and 00-worker stay'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l diff -d 'Add the lines that differ, decoded'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -l exit-code -d 'Say by the exit code what the change costs'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand plan" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand diff" -s f -l filename -d 'Compare the disk with these sources or this rendered config; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l pool -d 'Only this pool; beside a disk, by default that of its current config' -r
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l config -d 'Compare the disk with this rendered config: one that the disk keeps, or, with --kubeconfig or --context, of a cluster' -r
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l root -d 'Root directory of the disk' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l kubeconfig -d 'Kubeconfig; without it as kubectl finds it, or else the pod\'s service account' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l context -d 'Context of the kubeconfig' -r
complete -c mcx -n "__fish_mcx_using_subcommand diff" -s o -l output -d 'What to print' -r -f -a "text\t'For people, and for patch'
json\t'For programs'"
complete -c mcx -n "__fish_mcx_using_subcommand diff" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand diff" -l stat -d 'One line an item with the number of lines, and a total'
complete -c mcx -n "__fish_mcx_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand diff" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand explain" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand explain" -l pool -d 'Only this pool' -r
complete -c mcx -n "__fish_mcx_using_subcommand explain" -l rule -d 'Explain a rule by the id that a finding ends with' -r
complete -c mcx -n "__fish_mcx_using_subcommand explain" -s o -l output -d 'What to print' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c mcx -n "__fish_mcx_using_subcommand explain" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand explain" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand cat" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand cat" -l pool -d 'Pool whose nodes are meant; needed only where pools differ' -r
complete -c mcx -n "__fish_mcx_using_subcommand cat" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand cat" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand cat" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand apply" -l root -d 'Folder to change, laid out like a node\'s root' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand apply" -l pool -d 'Pool whose nodes have what the folder shall have' -r
complete -c mcx -n "__fish_mcx_using_subcommand apply" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand apply" -s o -l output -d 'What to print' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c mcx -n "__fish_mcx_using_subcommand apply" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand apply" -l withdraw -d 'Give everything back: the folder becomes what it was before mcx'
complete -c mcx -n "__fish_mcx_using_subcommand apply" -l dry-run -d 'Print the steps and change nothing'
complete -c mcx -n "__fish_mcx_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand apply" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l namespace -d 'Namespace of the controller, the daemons and the lease' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l settle -d 'Render when no source has changed for this long' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l settle-limit -d 'Render at the latest this long after the first change' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l drain-threshold -d 'A drain that takes longer is told about; it goes on' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l volume-detach -d 'After the pods are gone, wait this long for the node\'s volumes to be detached; 0s: do not wait' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l keep-rendered -d 'Unused rendered configs kept per pool' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l listen -d 'Address of /metrics, /healthz and /readyz' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l lease-duration -d 'For how long a leader leads after a renewal; it renews five times as often' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l kubeconfig -d 'Kubeconfig; without it the pod\'s service account, or else as kubectl finds it' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l context -d 'Context of the kubeconfig' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l pod -d 'Name of the pod this runs in' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l node -d 'Name of the node this runs on' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l log-format -d 'Form of log lines' -r -f -a "text\t'For people'
json\t'One JSON object a line'"
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l log -d 'What to log: a level, or `module=level` pairs as in `RUST_LOG`' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand controller" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l root -d 'The node\'s root directory' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l node-name -d 'Name of the node this runs on' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l kubeconfig -d 'Kubeconfig; without it the pod\'s service account' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l listen -d 'Address of /metrics, /healthz and /readyz' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l sweep -d 'Compare the whole disk this often, besides every event' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l watch-time -d 'Watch units for this long after the last action' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l guard-timeout -d 'Undo an update whose actions left the node without its kubelet or the API server for this long' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l kubelet-healthz -d 'Address at which the kubelet serves /healthz' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l log-format -d 'Form of log lines' -r -f -a "text\t'For people'
json\t'One JSON object a line'"
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -l log -d 'What to log: a level, or `module=level` pairs as in `RUST_LOG`' -r
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand daemon" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand crds" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand crds" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand completions" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand man" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand man" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand reference" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand reference" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand host-exec" -s h -l help -d 'Print help'
complete -c mcx -n "__fish_mcx_using_subcommand host-exec" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand guard" -l root -d 'The node\'s root directory' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand guard" -l log-format -d 'Form of log lines' -r -f -a "text\t'For people'
json\t'One JSON object a line'"
complete -c mcx -n "__fish_mcx_using_subcommand guard" -l log -d 'What to log: a level, or `module=level` pairs as in `RUST_LOG`' -r
complete -c mcx -n "__fish_mcx_using_subcommand guard" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand guard" -s V -l version -d 'Print version'
