//! Kinds of units, their sections, and in which sections well-known keys stand (systemd.directives(7)).
//!
//! The lists are of systemd 252 and what later versions added, with keys that are only still read. They are not used to
//! call a key unknown, which a newer systemd may know; only to say that a key stands in the wrong section.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Kinds of units that have a section of their own, by the suffix of their names.
const KINDS: [(&str, &str); 11] = [
    ("service", "Service"),
    ("socket", "Socket"),
    ("device", "Device"),
    ("mount", "Mount"),
    ("automount", "Automount"),
    ("swap", "Swap"),
    ("target", "Target"),
    ("path", "Path"),
    ("timer", "Timer"),
    ("slice", "Slice"),
    ("scope", "Scope"),
];

/// The lists of keys of each section that has any.
const SECTIONS: [(&str, &[&str]); 11] = [
    ("Unit", &[UNIT]),
    ("Service", &[SERVICE, EXECUTION, RESOURCES, KILLING]),
    ("Socket", &[SOCKET, EXECUTION, RESOURCES, KILLING]),
    ("Mount", &[MOUNT, EXECUTION, RESOURCES, KILLING]),
    ("Automount", &[AUTOMOUNT]),
    ("Swap", &[SWAP, EXECUTION, RESOURCES, KILLING]),
    ("Timer", &[TIMER]),
    ("Path", &[PATH]),
    ("Slice", &[RESOURCES]),
    ("Scope", &[SCOPE, RESOURCES, KILLING]),
    ("Install", &[INSTALL]),
];

/// `[Unit]`.
const UNIT: &str = "
    Description Documentation SourcePath Requires Requisite Wants BindsTo BindTo Upholds Conflicts Before After
    OnSuccess OnFailure PropagatesReloadTo PropagateReloadTo ReloadPropagatedFrom PropagateReloadFrom
    PropagatesStopTo StopPropagatedFrom PartOf JoinsNamespaceOf RequiresOverridable RequisiteOverridable
    RequiresMountsFor StopWhenUnneeded RefuseManualStart RefuseManualStop AllowIsolate DefaultDependencies
    OnSuccessJobMode OnFailureJobMode OnFailureIsolate IgnoreOnIsolate JobTimeoutSec JobRunningTimeoutSec
    JobTimeoutAction JobTimeoutRebootArgument StartLimitIntervalSec StartLimitInterval StartLimitBurst
    StartLimitAction FailureAction SuccessAction FailureActionExitStatus SuccessActionExitStatus RebootArgument
    ConditionPathExists ConditionPathExistsGlob ConditionPathIsDirectory ConditionPathIsSymbolicLink
    ConditionPathIsMountPoint ConditionPathIsReadWrite ConditionPathIsEncrypted ConditionDirectoryNotEmpty
    ConditionFileNotEmpty ConditionFileIsExecutable ConditionNeedsUpdate ConditionFirstBoot ConditionArchitecture
    ConditionFirmware ConditionVirtualization ConditionHost ConditionKernelCommandLine ConditionKernelVersion
    ConditionCredential ConditionSecurity ConditionCapability ConditionACPower ConditionMemory ConditionCPUFeature
    ConditionCPUs ConditionEnvironment ConditionUser ConditionGroup ConditionControlGroupController
    ConditionOSRelease ConditionMemoryPressure ConditionCPUPressure ConditionIOPressure AssertPathExists
    AssertPathExistsGlob AssertPathIsDirectory AssertPathIsSymbolicLink AssertPathIsMountPoint AssertPathIsReadWrite
    AssertPathIsEncrypted AssertDirectoryNotEmpty AssertFileNotEmpty AssertFileIsExecutable AssertNeedsUpdate
    AssertFirstBoot AssertArchitecture AssertVirtualization AssertHost AssertKernelCommandLine AssertKernelVersion
    AssertCredential AssertSecurity AssertCapability AssertACPower AssertMemory AssertCPUFeature AssertCPUs
    AssertEnvironment AssertUser AssertGroup AssertControlGroupController AssertOSRelease AssertMemoryPressure
    AssertCPUPressure AssertIOPressure CollectMode WantsMountsFor SurviveFinalKillSignal ConditionVersion
    AssertFirmware";

/// `[Install]`.
const INSTALL: &str = "
    Alias WantedBy RequiredBy Also DefaultInstance UpheldBy";

/// How a process runs: `[Service]`, `[Socket]`, `[Mount]`, `[Swap]`.
const EXECUTION: &str = "
    WorkingDirectory RootDirectory RootImage RootImageOptions RootHash RootHashSignature RootVerity
    ExtensionDirectories ExtensionImages MountImages User Group SupplementaryGroups Nice OOMScoreAdjust
    CoredumpFilter IOSchedulingClass IOSchedulingPriority CPUSchedulingPolicy CPUSchedulingPriority
    CPUSchedulingResetOnFork CPUAffinity NUMAPolicy NUMAMask UMask Environment EnvironmentFile PassEnvironment
    UnsetEnvironment DynamicUser RemoveIPC StandardInput StandardOutput StandardError StandardInputText
    StandardInputData TTYPath TTYReset TTYVHangup TTYVTDisallocate TTYRows TTYColumns SyslogIdentifier
    SyslogFacility SyslogLevel SyslogLevelPrefix LogLevelMax LogRateLimitIntervalSec LogRateLimitBurst
    LogExtraFields SecureBits CapabilityBoundingSet AmbientCapabilities TimerSlackNSec NoNewPrivileges KeyringMode
    ProtectProc ProcSubset SystemCallFilter SystemCallArchitectures SystemCallErrorNumber SystemCallLog
    MemoryDenyWriteExecute RestrictNamespaces RestrictRealtime RestrictSUIDSGID RestrictAddressFamilies
    LockPersonality RestrictFileSystems LimitCPU LimitFSIZE LimitDATA LimitSTACK LimitCORE LimitRSS LimitNOFILE
    LimitAS LimitNPROC LimitMEMLOCK LimitLOCKS LimitSIGPENDING LimitMSGQUEUE LimitNICE LimitRTPRIO LimitRTTIME
    ReadWriteDirectories ReadOnlyDirectories InaccessibleDirectories ReadWritePaths ReadOnlyPaths InaccessiblePaths
    ExecPaths NoExecPaths ExecSearchPath BindPaths BindReadOnlyPaths TemporaryFileSystem PrivateTmp PrivateDevices
    ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectClock ProtectControlGroups
    NetworkNamespacePath IPCNamespacePath LogNamespace PrivateNetwork PrivateUsers PrivateMounts PrivateIPC
    ProtectSystem ProtectHome MountFlags MountAPIVFS Personality RuntimeDirectoryPreserve RuntimeDirectoryMode
    RuntimeDirectory StateDirectoryMode StateDirectory CacheDirectoryMode CacheDirectory LogsDirectoryMode
    LogsDirectory ConfigurationDirectoryMode ConfigurationDirectory SetCredential SetCredentialEncrypted
    LoadCredential LoadCredentialEncrypted TimeoutCleanSec PAMName IgnoreSIGPIPE UtmpIdentifier UtmpMode
    SELinuxContext AppArmorProfile SmackProcessLabel ProtectHostname MemoryKSM RootEphemeral ImportCredential
    SetLoginEnvironment PrivatePIDs MountImagePolicy RootImagePolicy ExtensionImagePolicy";

/// What a control group may use: the same, `[Slice]` and `[Scope]`.
const RESOURCES: &str = "
    Slice AllowedCPUs StartupAllowedCPUs AllowedMemoryNodes StartupAllowedMemoryNodes CPUAccounting CPUWeight
    StartupCPUWeight CPUShares StartupCPUShares CPUQuota CPUQuotaPeriodSec MemoryAccounting MemoryMin
    DefaultMemoryMin DefaultMemoryLow MemoryLow MemoryHigh MemoryMax MemorySwapMax MemoryLimit DeviceAllow
    DevicePolicy IOAccounting IOWeight StartupIOWeight IODeviceWeight IOReadBandwidthMax IOWriteBandwidthMax
    IOReadIOPSMax IOWriteIOPSMax IODeviceLatencyTargetSec BlockIOAccounting BlockIOWeight StartupBlockIOWeight
    BlockIODeviceWeight BlockIOReadBandwidth BlockIOWriteBandwidth TasksAccounting TasksMax Delegate
    DisableControllers IPAccounting IPAddressAllow IPAddressDeny IPIngressFilterPath IPEgressFilterPath
    ManagedOOMSwap ManagedOOMMemoryPressure ManagedOOMMemoryPressureLimit ManagedOOMPreference BPFProgram
    SocketBindAllow SocketBindDeny RestrictNetworkInterfaces MemoryZSwapMax MemoryZSwapWriteback StartupMemoryHigh
    StartupMemoryLow StartupMemoryMax StartupMemorySwapMax StartupMemoryZSwapMax DefaultStartupMemoryLow
    MemoryPressureWatch MemoryPressureThresholdSec CoredumpReceive DelegateSubgroup NFTSet
    ManagedOOMMemoryPressureDurationSec";

/// How processes are ended: as [`EXECUTION`], and `[Scope]`.
const KILLING: &str = "
    SendSIGKILL SendSIGHUP KillMode KillSignal RestartKillSignal FinalKillSignal WatchdogSignal";

/// `[Service]`, apart from what it shares.
const SERVICE: &str = "
    PIDFile ExecCondition ExecStartPre ExecStart ExecStartPost ExecReload ExecStop ExecStopPost RestartSec
    TimeoutSec TimeoutStartSec TimeoutStopSec TimeoutAbortSec TimeoutStartFailureMode TimeoutStopFailureMode
    RuntimeMaxSec RuntimeRandomizedExtraSec WatchdogSec StartLimitInterval StartLimitBurst StartLimitAction
    FailureAction RebootArgument Type ExitType Restart PermissionsStartOnly RootDirectoryStartOnly RemainAfterExit
    GuessMainPID RestartPreventExitStatus RestartForceExitStatus SuccessExitStatus NonBlocking BusName
    FileDescriptorStoreMax NotifyAccess Sockets USBFunctionDescriptors USBFunctionStrings OOMPolicy ReloadSignal
    RestartSteps RestartMaxDelaySec RestartMode OpenFile FileDescriptorStorePreserve";

/// `[Socket]`, apart from what it shares.
const SOCKET: &str = "
    ListenStream ListenDatagram ListenSequentialPacket ListenFIFO ListenNetlink ListenSpecial ListenMessageQueue
    ListenUSBFunction SocketProtocol BindIPv6Only Backlog BindToDevice ExecStartPre ExecStartPost ExecStopPre
    ExecStopPost TimeoutSec SocketUser SocketGroup SocketMode DirectoryMode Accept FlushPending Writable
    MaxConnections MaxConnectionsPerSource KeepAlive KeepAliveTimeSec KeepAliveIntervalSec KeepAliveProbes
    DeferAcceptSec NoDelay Priority ReceiveBuffer SendBuffer IPTOS IPTTL Mark PipeSize FreeBind Transparent
    Broadcast PassCredentials PassSecurity PassPacketInfo Timestamping TCPCongestion ReusePort
    MessageQueueMaxMessages MessageQueueMessageSize RemoveOnStop Symlinks FileDescriptorName Service
    TriggerLimitIntervalSec TriggerLimitBurst SmackLabel SmackLabelIPIn SmackLabelIPOut SELinuxContextFromNet
    PollLimitIntervalSec PollLimitBurst PassFileDescriptorsToExec DeferTrigger";

/// `[Mount]`, apart from what it shares.
const MOUNT: &str = "
    What Where Options Type TimeoutSec DirectoryMode SloppyOptions LazyUnmount ForceUnmount ReadWriteOnly";

/// `[Automount]`, apart from what it shares.
const AUTOMOUNT: &str = "
    Where ExtraOptions DirectoryMode TimeoutIdleSec";

/// `[Swap]`, apart from what it shares.
const SWAP: &str = "
    What Priority Options TimeoutSec";

/// `[Timer]`, apart from what it shares.
const TIMER: &str = "
    OnCalendar OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec OnUnitInactiveSec OnClockChange OnTimezoneChange
    Persistent WakeSystem RemainAfterElapse FixedRandomDelay AccuracySec RandomizedDelaySec Unit DeferReactivation";

/// `[Path]`, apart from what it shares.
const PATH: &str = "
    PathExists PathExistsGlob PathChanged PathModified DirectoryNotEmpty Unit MakeDirectory DirectoryMode
    TriggerLimitIntervalSec TriggerLimitBurst";

/// `[Scope]`, apart from what it shares.
const SCOPE: &str = "
    RuntimeMaxSec RuntimeRandomizedExtraSec TimeoutStopSec OOMPolicy";

static HOMES: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (section, lists) in SECTIONS {
        for key in lists.iter().flat_map(|list| list.split_whitespace()) {
            let sections = homes.entry(key).or_default();
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
    }
    homes
});

/// The sections of a unit of this name, which may be a template's or an instance's: `Unit`, the kind's own, `Install`.
/// None for a name without a kind that systemd still has.
pub fn sections(unit: &str) -> Option<[&'static str; 3]> {
    let (_, suffix) = unit.rsplit_once('.')?;
    let (_, own) = KINDS.iter().find(|(kind, _)| *kind == suffix)?;
    Some(["Unit", own, "Install"])
}

/// The suffix of units that have this section; none for `Unit` and `Install`, which all have.
pub fn kind_with(section: &str) -> Option<&'static str> {
    KINDS.iter().find(|(_, own)| *own == section).map(|(kind, _)| *kind)
}

/// The sections in which a well-known key may stand; none of one that is not in the lists.
pub fn homes(key: &str) -> &'static [&'static str] {
    HOMES.get(key).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_unit_has_three_sections() {
        assert_eq!(sections("a.service"), Some(["Unit", "Service", "Install"]));
        assert_eq!(sections("a.b@c.d.timer"), Some(["Unit", "Timer", "Install"]));
        assert_eq!(sections("a.snapshot"), None, "systemd has had none since version 228");
        assert_eq!(sections("a"), None);
        assert_eq!((kind_with("Service"), kind_with("Unit")), (Some("service"), None));
    }

    #[test]
    fn keys_are_at_home_where_systemd_reads_them() {
        for (key, sections) in [
            ("After", &["Unit"][..]),
            ("ExecStart", &["Service"]),
            ("ExecStartPre", &["Service", "Socket"]),
            ("Environment", &["Service", "Socket", "Mount", "Swap"]),
            ("MemoryMax", &["Service", "Socket", "Mount", "Swap", "Slice", "Scope"]),
            ("KillMode", &["Service", "Socket", "Mount", "Swap", "Scope"]),
            ("StartLimitBurst", &["Unit", "Service"]),
            ("WantedBy", &["Install"]),
            ("OnCalendar", &["Timer"]),
            ("NoSuchKey", &[]),
        ] {
            assert_eq!(homes(key), sections, "{key}");
        }
    }

    #[test]
    #[ignore = "needs a systemd of at least version 252 in /usr/lib/systemd"]
    fn the_lists_hold_all_that_the_systemd_of_this_machine_reads() {
        let output = std::process::Command::new("/usr/lib/systemd/systemd").arg("--dump-configuration-items").output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let mut section = "";
        let mut missing = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            } else if let Some((key, _)) = line.split_once('=')
                && !homes(key).contains(&section)
            {
                missing.push(format!("{section}.{key}"));
            }
        }
        assert!(!section.is_empty(), "it printed nothing");
        assert_eq!(missing, Vec::<String>::new());
    }
}
