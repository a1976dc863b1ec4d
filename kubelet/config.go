package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/admission"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/hook"
	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/probe"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/kubelet/volumes"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

// Config describes a kubelet. NodeName, Root, Runtime, Images, Pods, PodStatus, Nodes and Leases
// must be set. A kubelet without an API server has StaticPods, and none of Pods, PodStatus, Nodes
// and Leases.
type Config struct {
	// NodeName is the name of the Node object.
	NodeName string
	// Root is the absolute path of the directory for pods/UID directories and volumes.
	Root string
	// ShareRoot makes Root a shared mount, as Kubernetes' kubelet does, so that containers can have mounts below
	// it that propagate. It needs root, and stays mounted when the kubelet has ended. If it is false, Run
	// says once in the log if Root is not shared.
	ShareRoot bool
	// LogRoot is the directory of logs: NS_NAME_UID/CONTAINER/N.log. Empty means /var/log/pods.
	// Logs of pods that are not in the API are removed, so kubelets must not share it.
	LogRoot string
	// LogMaxSize is the size in bytes from which the log of a container is rotated, and LogMaxFiles
	// the number of files that are kept of it, at least 2. Zero means 10 MiB and 5.
	LogMaxSize  int64
	LogMaxFiles int
	// LogInterval is the time between two looks at the logs, and LogWorkers the number of logs that are
	// rotated at once. Zero means 10 seconds and 1.
	LogInterval time.Duration
	LogWorkers  int
	// CgroupRoot is the parent of the pods' cgroups, such as /kubepods; kubelets must not share it.
	// Empty means that pods have no cgroups of their own.
	CgroupRoot string
	// Cgroups says which cgroups there are below CgroupRoot, and what is limited.
	Cgroups Cgroups
	// CgroupMount is the mount point of the cgroup file systems. Empty means /sys/fs/cgroup.
	CgroupMount string

	// Require says what the machine must be like. Otherwise Run returns an error.
	Require Requirements

	// HostName is the host name of the node. Empty means NodeName.
	HostName string
	// Addresses are the node's addresses. Those of type InternalIP become the host addresses of
	// pods.
	Addresses []corev1.NodeAddress
	// Port is the port of the kubelet's server at those addresses, reported in the Node. Zero means
	// no server.
	Port int32
	// Labels and Taints are set when the Node is created; labels also later.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity overrides the detected cpu, memory and ephemeral-storage, and the default of 110
	// pods.
	Capacity corev1.ResourceList
	// PodsPerCore bounds the number of pods by the node's CPUs, below that of Capacity. Zero means no such
	// bound.
	PodsPerCore int
	// ProviderID names the machine at its provider. It is set when the Node is created.
	ProviderID string
	// NodeImages is the number of images that the Node lists, the largest first; -1 means all. Nil means
	// 50.
	NodeImages *int
	// KubeReserved and SystemReserved are not for pods: they are taken from the Node's allocatable
	// resources and, as to pid, from the processes that all pods may have, as are the hard thresholds of Eviction for memory and ephemeral-storage.
	KubeReserved, SystemReserved corev1.ResourceList
	// PodCIDR is set when the Node is created. Empty means that a controller assigns it, or without
	// an API server that the runtime has a network of its own.
	PodCIDR string
	// ClusterDNS and ClusterDomain are for pods with the dnsPolicy ClusterFirst. Empty means that
	// they use the host's resolver.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the host's resolver configuration. Empty means /etc/resolv.conf.
	ResolvConf string

	Runtime Runtime
	Images  Images
	// Pods is the cache of the pods whose spec.nodeName is this node.
	Pods localcache.ReadSubscriber[*corev1.Pod]
	// StaticPods is the cache of the pods that do not come from an API server; package staticpods
	// reads them from files. They start without the API server, and hide its pods with the same
	// names. Nil means none.
	StaticPods localcache.ReadSubscriber[*corev1.Pod]
	// CreatePod creates the mirror pods that show static pods in the API. If nil, there are none.
	CreatePod func(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error)
	PodStatus PodStatus
	Nodes     Nodes
	Leases    Leases
	// Events may be nil; no events are then written.
	Events Events
	// Secrets and ConfigMaps read objects from the API server. If nil, pods that need one do not
	// start.
	Secrets    func(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMaps func(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	// Claims and PersistentVolumes read objects from the API server; the namespace of a persistent
	// volume is empty. If one is nil, pods with claims do not start.
	Claims            func(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	PersistentVolumes func(ctx context.Context, namespace, name string) (*corev1.PersistentVolume, error)
	// Services returns the services of a namespace, for the environment of containers. If nil,
	// containers get no variables of services.
	Services func(namespace string) iter.Seq[*corev1.Service]
	// RuntimeClasses is the cache of runtime classes, by name. If nil, pods that have a class do not
	// start.
	RuntimeClasses localcache.Getter[*nodev1.RuntimeClass]
	// Tokens issues service account tokens. If nil, pods that need one do not start.
	Tokens Tokens
	// TrustBundles has the anchors of cluster trust bundles; package trustbundle reads them from a cache.
	// If nil, pods that need one do not start.
	TrustBundles volumes.TrustBundles
	// Volumes are further types of volumes. They are asked before the built-in ones.
	Volumes []volumes.Plugin
	// VolumeStatsPeriod is the time for which the statistics of a pod's volumes are used. Zero means 1
	// minute; if it is negative, there are none.
	VolumeStatsPeriod time.Duration
	// Network is called with the node's pod range once it is known, and before any pod starts that
	// is not on the host's network. It can write the CNI configuration. It is called until it
	// succeeds. It may be nil.
	Network func(ctx context.Context, podCIDR string) error
	// Protect is called with a pod that is not on the host's network and the addresses of its sandbox, before a first container starts
	// there, and returns once what protects the pod's network is in place. Until it succeeds nothing of
	// the pod runs. The pod must not be changed. It may be nil.
	Protect func(ctx context.Context, pod *corev1.Pod, addresses []netip.Addr) error

	// AllowedUnsafeSysctls are the sysctls that pods may set in addition to the safe ones, which affect
	// only their pod. A name may end with an asterisk.
	AllowedUnsafeSysctls []string
	// SeccompDefault gives containers without a seccomp profile the runtime's default one. If it is false,
	// they are unconfined.
	SeccompDefault bool
	// MaxRestartBackoff is the longest delay before a failed container is restarted, from 1 second to 5
	// minutes. Zero means 5 minutes.
	MaxRestartBackoff time.Duration
	// Admission are further checks of pods that have not started, after the built-in ones. A pod that
	// one of them refuses fails with its reason.
	Admission []admission.Handler
	// Shutdown says how long pods may take to end when the machine shuts down; see
	// [Kubelet.Shutdown].
	Shutdown shutdown.Config
	// SerializeImagePulls makes the node pull one image at a time. Nil means true, unless
	// MaxParallelPulls is greater than 1.
	SerializeImagePulls *bool
	// MaxParallelPulls bounds the images that are pulled at once. Zero means no limit, if pulls are not
	// serialized.
	MaxParallelPulls int
	// PullRate limits pulls; one that exceeds it fails, and is retried with a backoff. A PerSecond of zero
	// means no limit, and a Burst of zero 10. (A KubeletConfiguration has 5 and 10 by default.)
	PullRate Rate
	// EventRate limits how often Event objects are written; more of them wait. Zero fields mean 50 and
	// 100, and a negative PerSecond no limit.
	EventRate Rate
	// DockerConfigDirs are absolute paths of directories in which the first config.json, or else the
	// first .dockercfg, has the node's credentials for registries. They are read at every pull, and tried
	// after those of the pod. Empty means that the node has none.
	DockerConfigDirs []string
	// SyncPeriod is the interval at which a pod is synced without an event; it has the precision of a
	// second. Zero means DefaultSyncPeriod.
	SyncPeriod time.Duration
	// Heartbeat says how often the node reports that it is alive.
	Heartbeat Heartbeat
	// CPUManager says which containers have CPUs of their own.
	CPUManager CPUManager
	// Eviction says when pods are evicted, and ImageGC when unused images are removed.
	Eviction Eviction
	ImageGC  ImageGC

	// Prober makes the attempts of probes. Nil means a probe.Client that connects from this host
	// and executes commands if Runtime is an Executor.
	Prober probe.Prober
	// ProbeObserver observes the probes. It may be nil.
	ProbeObserver ProbeObserver
	// Meters are called with what the kubelet does, for metrics.
	Meters Meters
	// Hooks calls postStart and preStop hooks. Nil means a hook.Client, with the same limits.
	Hooks hook.Caller

	// StopPodsOnExit makes Run call StopPods at its end, unless Leave is closed. Leave may be nil.
	StopPodsOnExit bool
	Leave          <-chan struct{}
	// StopNow, when closed, makes StopPods kill containers without grace, and give up with an
	// error when no pod has gone for 10 to 20 seconds. It may be nil.
	StopNow <-chan struct{}
	// StopGrace is the maximum grace of containers in StopPods. Zero means 10 seconds.
	StopGrace time.Duration

	Log logr.Logger
}

// Requirements says what a machine must be like.
type Requirements struct {
	// NoSwap means that the machine must have no swap, and Unified that it must have version 2 of cgroups.
	NoSwap, Unified bool
	// KernelDefaults means that the sysctls on which the stability of a node depends must have the values
	// that Kubernetes expects. The kubelet never changes them.
	KernelDefaults bool
}

// check returns an error unless the machine is as required. The words are those of Kubernetes.
func (r Requirements) check(groups cgroup.FS) error {
	if r.Unified && !groups.Unified() {
		return errors.New("kubelet is configured to not run on a host using cgroup v1")
	}
	if r.NoSwap {
		switch swaps, err := machine.Swaps("/proc"); {
		case err != nil:
			return err
		case swaps:
			return errors.New("running with swap on is not supported, please disable swap or set failSwapOn to false")
		}
	}
	if r.KernelDefaults {
		return machine.CheckKernelDefaults("/proc")
	}
	return nil
}

// Rate is a number of operations in a second over time, and at once.
type Rate struct{ PerSecond, Burst int }

// Eviction is the configuration of evictions. Pods that exceed their own limits of local storage are
// always evicted, if the runtime is a StatsSource; so are pods of a node that runs out of something.
type Eviction struct {
	// Thresholds is a result of [eviction.Parse]. Nil means Kubernetes' hard thresholds, an empty slice
	// none.
	Thresholds []eviction.Threshold
	// Transition is how long the Node reports a pressure after it was last observed; zero means
	// [eviction.DefaultTransition].
	Transition time.Duration
	// MaxGrace bounds the grace period of pods that are evicted for a soft threshold, in seconds. Zero
	// means that they are killed as for a hard one.
	MaxGrace int64
	// Interval is the time between two observations; zero means 10 seconds.
	Interval time.Duration
}

// complete validates e and sets defaults.
func (e *Eviction) complete() (err error) {
	switch {
	case e.MaxGrace < 0:
		return fmt.Errorf("Eviction.MaxGrace %d is negative", e.MaxGrace)
	case e.Interval < 0:
		return fmt.Errorf("Eviction.Interval %v is negative", e.Interval)
	case e.Interval == 0:
		e.Interval = 10 * time.Second
	}
	if e.Thresholds == nil {
		e.Thresholds, err = eviction.Parse(eviction.Settings{Hard: eviction.DefaultHard()})
	}
	return err
}

// Intervals of a [Heartbeat] that are zero.
const (
	DefaultStatusPeriod       = 10 * time.Second
	DefaultReportPeriod       = 5 * time.Minute
	DefaultLeaseSeconds int32 = 40
)

// Heartbeat is the configuration of the reports of the node.
type Heartbeat struct {
	// StatusPeriod is the interval at which the Node's status is checked, and ReportPeriod the one at
	// which it is written without changes. Zero means DefaultStatusPeriod and DefaultReportPeriod.
	StatusPeriod, ReportPeriod time.Duration
	// LeaseSeconds is for how long the Lease is valid. It is renewed after a quarter of that. Zero means
	// DefaultLeaseSeconds.
	LeaseSeconds int32
}

// complete validates h and sets defaults.
func (h *Heartbeat) complete() error {
	if h.StatusPeriod < 0 || h.ReportPeriod < 0 || h.LeaseSeconds < 0 {
		return fmt.Errorf("Heartbeat has a negative field: %+v", *h)
	}
	h.StatusPeriod = cmp.Or(h.StatusPeriod, DefaultStatusPeriod)
	h.ReportPeriod = cmp.Or(h.ReportPeriod, DefaultReportPeriod)
	h.LeaseSeconds = cmp.Or(h.LeaseSeconds, DefaultLeaseSeconds)
	return nil
}

// ImageGC is the configuration of the garbage collection of images. The fields are those of
// [images.Config].
type ImageGC struct {
	// High and Low are shares of the images' file system in percent; zero means 85 and 80. With a High
	// of 100 no image is removed.
	High, Low int
	// MinAge and MaxAge are for images without containers; zero means 2 minutes and no limit.
	MinAge, MaxAge time.Duration
	// Keep lists images that are never removed. A runtime that does not pin the image of its sandboxes
	// (containerd before 1.7) needs that one here.
	Keep []string
}

// nodeName matches a DNS subdomain; the name is also used in labels of the runtime.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// complete validates c and sets defaults.
func (c *Config) complete() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(len(c.NodeName) <= 253 && nodeName.MatchString(c.NodeName), fmt.Sprintf("NodeName %q is not a DNS subdomain", c.NodeName))
	need(c.Runtime != nil, "Runtime is missing")
	need(c.Images != nil, "Images is missing")
	if !c.standalone() {
		need(c.Pods != nil, "Pods is missing")
		need(c.PodStatus != nil, "PodStatus is missing")
		need(c.Nodes != nil, "Nodes is missing")
		need(c.Leases != nil, "Leases is missing")
	}
	need(c.Port >= 0 && c.Port <= 65535, fmt.Sprintf("Port %d is not between 0 and 65535", c.Port))
	need(c.LogMaxSize >= 0, fmt.Sprintf("LogMaxSize %d is negative", c.LogMaxSize))
	need(c.LogMaxFiles == 0 || c.LogMaxFiles >= 2, fmt.Sprintf("LogMaxFiles %d is less than 2", c.LogMaxFiles))
	c.completePulls(need)
	c.completeLimits(need)
	c.Cgroups.complete(need)
	setDefault(&c.LogRoot, "/var/log/pods")
	setDefault(&c.CgroupMount, "/sys/fs/cgroup")
	setDefault(&c.HostName, c.NodeName)
	setDefault(&c.ResolvConf, "/etc/resolv.conf")
	setDefault(&c.ClusterDomain, "cluster.local")
	need(filepath.IsAbs(c.Root), fmt.Sprintf("Root %q is not an absolute path", c.Root))
	need(filepath.IsAbs(c.LogRoot), fmt.Sprintf("LogRoot %q is not an absolute path", c.LogRoot))
	if c.CgroupRoot != "" {
		clean := filepath.Clean(c.CgroupRoot)
		need(filepath.IsAbs(clean) && clean != "/", fmt.Sprintf("CgroupRoot %q is not an absolute path below the root", c.CgroupRoot))
		c.CgroupRoot = clean
	}
	if c.PodCIDR != "" {
		for cidr := range strings.SplitSeq(c.PodCIDR, ",") {
			_, err := netip.ParsePrefix(cidr)
			need(err == nil, fmt.Sprintf("PodCIDR %q is not an address range", c.PodCIDR))
		}
	}
	if c.Prober == nil {
		c.Prober = &probe.Client{Exec: executes(c.Runtime)}
	}
	if c.Hooks == nil {
		c.Hooks = &hook.Client{Exec: executes(c.Runtime)}
	}
	if err := c.Eviction.complete(); err != nil {
		errs = append(errs, err)
	}
	if err := c.reserveCPUs(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Heartbeat.complete(); err != nil {
		errs = append(errs, err)
	}
	if _, err := admission.Handlers(admission.Host{AllowedUnsafeSysctls: c.AllowedUnsafeSysctls}); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Shutdown.Periods(); err != nil {
		errs = append(errs, err)
	}
	if c.StopGrace == 0 {
		c.StopGrace = 10 * time.Second
	}
	labels := map[string]string{
		corev1.LabelHostname: c.HostName, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}
	maps.Copy(labels, c.Labels)
	c.Labels = labels
	if len(c.Addresses) == 0 {
		c.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: c.HostName}}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	return nil
}

// completePulls validates what is said about pulls of images, and sets defaults.
func (c *Config) completePulls(need func(ok bool, what string)) {
	need(c.MaxParallelPulls >= 0, fmt.Sprintf("MaxParallelPulls %d is negative", c.MaxParallelPulls))
	if c.SerializeImagePulls == nil {
		serialize := c.MaxParallelPulls <= 1
		c.SerializeImagePulls = &serialize
	}
	need(!*c.SerializeImagePulls || c.MaxParallelPulls <= 1, fmt.Sprintf("MaxParallelPulls %d needs SerializeImagePulls to be false", c.MaxParallelPulls))
	for _, directory := range c.DockerConfigDirs {
		need(filepath.IsAbs(directory), fmt.Sprintf("DockerConfigDirs: %q is not an absolute path", directory))
	}
}

// completeLimits validates bounds and rates, and sets defaults.
func (c *Config) completeLimits(need func(ok bool, what string)) {
	need(c.LogInterval >= 0, fmt.Sprintf("LogInterval %v is negative", c.LogInterval))
	need(c.LogWorkers >= 0, fmt.Sprintf("LogWorkers %d is negative", c.LogWorkers))
	need(c.PodsPerCore >= 0, fmt.Sprintf("PodsPerCore %d is negative", c.PodsPerCore))
	need(c.NodeImages == nil || *c.NodeImages >= -1, "NodeImages is less than -1")
	c.MaxRestartBackoff = cmp.Or(c.MaxRestartBackoff, lifecycle.BackoffMost)
	need(c.MaxRestartBackoff >= time.Second && c.MaxRestartBackoff <= lifecycle.BackoffMost,
		fmt.Sprintf("MaxRestartBackoff %v is not between 1s and %v", c.MaxRestartBackoff, lifecycle.BackoffMost))
	need(c.PullRate.PerSecond >= 0 && c.PullRate.Burst >= 0, fmt.Sprintf("PullRate has a negative field: %+v", c.PullRate))
	need(c.EventRate.Burst >= 0, fmt.Sprintf("EventRate.Burst %d is negative", c.EventRate.Burst))
	need(c.SyncPeriod >= 0, fmt.Sprintf("SyncPeriod %v is negative", c.SyncPeriod))
	c.SyncPeriod = cmp.Or(c.SyncPeriod, DefaultSyncPeriod)
	c.VolumeStatsPeriod = cmp.Or(c.VolumeStatsPeriod, time.Minute)
	c.PullRate.Burst = cmp.Or(c.PullRate.Burst, 10)
	c.EventRate = Rate{cmp.Or(c.EventRate.PerSecond, 50), cmp.Or(c.EventRate.Burst, 100)}
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// pulls returns the queue of image pulls.
func (c *Config) pulls() *images.Queue {
	if *c.SerializeImagePulls {
		return images.NewQueue(1)
	}
	return images.NewQueue(c.MaxParallelPulls)
}

// hostIPs returns the node's internal addresses.
func (c *Config) hostIPs() []string {
	var ips []string
	for _, a := range c.Addresses {
		if a.Type == corev1.NodeInternalIP {
			ips = append(ips, a.Address)
		}
	}
	return ips
}

// makeRoots creates the root directories.
func (c *Config) makeRoots() error {
	for path, mode := range map[string]os.FileMode{filepath.Join(c.Root, "pods"): 0o750, c.LogRoot: 0o755} {
		if err := os.MkdirAll(path, mode); err != nil {
			return fmt.Errorf("kubelet: %w", err)
		}
	}
	return nil
}
