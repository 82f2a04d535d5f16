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
complete -c mcx -n "__fish_mcx_needs_command" -f -a "render" -d 'Print the rendered config of a pool'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "validate" -d 'Find all that is wrong or odd in sources, pools and policies'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "controller" -d 'Run the cluster controller'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "daemon" -d 'Run the daemon of one node'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "crds" -d 'Print the custom resource definitions'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "completions" -d 'Print a script for a shell to complete mcx on TAB'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "man" -d 'Write manual pages'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "reference" -d 'Write the reference pages'
complete -c mcx -n "__fish_mcx_needs_command" -f -a "host-exec" -d 'Run a command inside a node\'s root (used by the daemon)'
complete -c mcx -n "__fish_mcx_using_subcommand render" -l pool -d 'Pool to render' -r
complete -c mcx -n "__fish_mcx_using_subcommand render" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand render" -s o -l output -d 'What to print' -r -f -a "yaml\t'The object as YAML'
json\t'The object as JSON'
name\t'Only the name of the rendered config'"
complete -c mcx -n "__fish_mcx_using_subcommand render" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand render" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand render" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s f -l filename -d 'File or folder with the objects, or - for standard input; may be given more than once' -r -F
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s o -l output -d 'How to print findings' -r -f -a "text\t'Each with the line it is about and a caret'
json\t'One JSON object'
github\t'Annotations for the log of a GitHub workflow'"
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s R -l recursive -d 'Read folders with all that is below them'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -l strict -d 'Let warnings count as errors do for the exit code'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c mcx -n "__fish_mcx_using_subcommand validate" -s V -l version -d 'Print version'
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l namespace -d 'Namespace of the controller, the daemons and the lease' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l settle -d 'Render when no source has changed for this long' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l settle-limit -d 'Render at the latest this long after the first change' -r
complete -c mcx -n "__fish_mcx_using_subcommand controller" -l drain-threshold -d 'A drain that takes longer is told about; it goes on' -r
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
