package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/examples/cluster/objectstore"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/plane/kubeflags"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/schedule/policy"
)

// dataDir is the data directory unless a flag names another.
const dataDir = ".planekit"

// options are the command line.
type options struct {
	role                        string
	joining                     joining            // of the role node
	serving                     *kubeflags.Serving // the flags of the server's certificates; with the role node, of the kubelet's
	overlay                     string
	dataDir, listen, kubeconfig string
	nodes                       int
	podNetwork                  netip.Prefix // parsed clusterCIDR; not valid where it is auto
	machines                    bool         // nodes are machines of their own
	restartMachines             bool
	machineCIDR                 string
	machineNetwork              netip.Prefix // parsed machineCIDR; not valid where it is auto
	balancerCIDRs               []string
	balancerPool                []netip.Prefix // parsed balancerCIDRs
	runtime, containerdSocket   string
	store                       *objectstore.Options // the flags that say where objects are kept
	offlineImages, imageCache   string
	registryMirror              string // URL of a registry to pull from instead of the public ones; empty means none
	clusterCIDR                 string
	kube                        *kubeflags.Options // the flags that kube-apiserver and kube-controller-manager have too
	profiling                   bool
	metricsServer               bool
	metricResolution            time.Duration
	kubeletConfig               string       // file of a KubeletConfiguration
	kubelet                     *nodes.File  // its contents; nil without a file
	schedulerConfig             string       // file of a KubeSchedulerConfiguration
	policyConfigFile            string       // file of a Policy
	scheduler                   *policy.File // the contents of one of both; nil without a file
	evictionHard                string
	manifestPath                string
	thresholds                  []eviction.Threshold // those of evictionHard
	verbosity                   int
	stopNow                     <-chan struct{} // closed when what runs is to get no grace; may be nil
	leave                       <-chan struct{} // closed when pods are to be left as they are; may be nil
	flags                       *pflag.FlagSet  // where these options are from
}

func (o *options) add(flags *pflag.FlagSet) {
	o.flags = flags
	o.addRole(flags)
	flags.StringVar(&o.dataDir, "data-dir", dataDir, "directory for everything the cluster keeps")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:6443", "address of the API server; port 0 picks a free one (default 0.0.0.0:6443 with --role server)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "where the administrator's kubeconfig is written (default admin.kubeconfig in the data directory); with --role node, the file with the node's own credentials")
	flags.IntVar(&o.nodes, "nodes", 1, "number of nodes")
	flags.StringVar(&o.runtime, "runtime", "auto", "what runs containers: auto, containerd or fake (in this process)")
	flags.StringVar(&o.containerdSocket, "containerd-socket", "", "use the containerd that listens here rather than one of our own; one node only")
	o.store = objectstore.AddFlags(flags)
	flags.StringVar(&o.clusterCIDR, "cluster-cidr", autoCIDR, "addresses of pods; each node gets a /24 of them; auto takes the first free /16 from 10.244.0.0 to 10.255.0.0, then from 10.200.0.0, and keeps to it")
	flags.BoolVar(&o.machines, "machines", true, "with containerd, run each node as a machine in namespaces of its own. Nodes that share this machine start faster, and have no addresses of services, no names and no NetworkPolicies")
	flags.StringVar(&o.machineCIDR, "machine-cidr", autoCIDR, "addresses of machines; auto takes the first free /24 from 10.199.0.0")
	flags.StringSliceVar(&o.balancerCIDRs, "load-balancer-cidr", nil, "addresses for Services of type LoadBalancer, which the network must lead to a node; may be repeated (default none: such Services stay pending)")
	flags.BoolVar(&o.restartMachines, "restart-machines", true, "start a machine again that has ended; without, a hangup (SIGHUP) does")
	flags.StringVar(&o.offlineImages, "offline-images", "auto", "serve pause, nginx and busybox from a registry in this process: on, off, or auto (where the public registry cannot be reached)")
	flags.StringVar(&o.registryMirror, "registry-mirror", "", "URL of a registry to pull from instead of docker.io and registry.k8s.io; with --role server, it is in the command that adds a node")
	flags.StringVar(&o.imageCache, "image-cache", "", "directory of the images built for --offline-images (default planekit in the user's cache directory)")
	flags.BoolVar(&o.profiling, "profiling", true, "serve profiles of this process under /debug/pprof/, to those who may get that path")
	flags.BoolVar(&o.metricsServer, "metrics-server", true, "serve metrics.k8s.io, which kubectl top shows")
	flags.DurationVar(&o.metricResolution, "metric-resolution", 15*time.Second, "how often the metrics server asks each kubelet, at least every second")
	flags.StringVar(&o.kubeletConfig, "kubelet-config", "", "file with a KubeletConfiguration for all nodes, as kubelet has it with --config")
	flags.StringVar(&o.schedulerConfig, "scheduler-config", "", "file with a KubeSchedulerConfiguration, as kube-scheduler has it with --config")
	flags.StringVar(&o.policyConfigFile, "policy-config-file", "", "file with a Policy of the scheduler, as kube-scheduler had it until v1.22")
	flags.StringVar(&o.evictionHard, "eviction-hard", "", "evict pods of nodes that have less, such as memory.available<100Mi,nodefs.available<10% (default none: the machine belongs to others too)")
	flags.StringVar(&o.manifestPath, "pod-manifest-path", "", "directory with manifests of static pods for the first node, read every 20s, or one manifest (default none)")
	flags.IntVarP(&o.verbosity, "verbosity", "v", 0, "how much to log: nothing but what an operator acts on, more with -v, every step with -v=4")
	flags.Lookup("verbosity").NoOptDefVal = "1"
	o.kube = kubeflags.Add(flags)
}

// complete checks the options and makes paths absolute.
func (o *options) complete() error {
	if err := o.checkRole(); err != nil {
		return err
	}
	hard, err := eviction.Map(o.evictionHard)
	if err == nil {
		o.thresholds, err = eviction.Parse(eviction.Settings{Hard: hard})
	}
	if err != nil {
		return fmt.Errorf("--eviction-hard: %w", err)
	}
	if err := errors.Join(o.readKubeletConfig(), o.readSchedulerConfig()); err != nil {
		return err
	}
	choices := []struct {
		flag, value string
		allowed     []string
	}{
		{"--runtime", o.runtime, []string{"auto", "containerd", "fake"}},
		{"--overlay", o.overlay, []string{"vxlan", "host-gw", "udp"}},
		{"--offline-images", o.offlineImages, []string{"auto", "on", "off"}},
	}
	for _, c := range choices {
		if !slices.Contains(c.allowed, c.value) {
			return fmt.Errorf("%s must be one of %v, not %q", c.flag, c.allowed, c.value)
		}
	}
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	maxNodes, err := o.network()
	if err != nil {
		return err
	}
	switch {
	case o.nodes < 0 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes must be between 0 and %d, not %d: each takes a /%d of --cluster-cidr %s", maxNodes, o.nodes, nodeBits, o.clusterCIDR)
	case o.containerdSocket != "" && o.nodes > 1:
		return errors.New("--containerd-socket names one containerd, which serves one node: use --nodes 1")
	case o.containerdSocket != "" && o.flags.Changed("machines") && o.machines:
		return errors.New("--containerd-socket and --machines exclude each other: each machine has a containerd of its own")
	case o.containerdSocket != "" && o.runtime == "fake":
		return errors.New("--containerd-socket and --runtime fake exclude each other")
	case o.manifestPath != "" && o.nodes == 0:
		return errors.New("--pod-manifest-path needs a node")
	case o.metricResolution < time.Second:
		return fmt.Errorf("--metric-resolution must be at least 1s, not %v", o.metricResolution)
	}
	return errors.Join(o.checkMirror(), o.store.Check(), o.kube.Check(), o.serving.Check(), o.readBalancerPool(), o.absolute())
}

// wantsMachines reports whether nodes are to be machines of their own, if they run on containerd.
func (o *options) wantsMachines() bool {
	return o.machines && o.nodes > 0 && o.containerdSocket == ""
}

// readBalancerPool reads --load-balancer-cidr, whose ranges overlap neither each other nor those of services and pods.
func (o *options) readBalancerPool() error {
	o.balancerPool = nil
	taken := map[string][]netip.Prefix{"--service-cluster-ip-range": o.kube.ServiceCIDRs()}
	if o.podNetwork.IsValid() {
		taken["--cluster-cidr"] = []netip.Prefix{o.podNetwork}
	}
	if o.machineNetwork.IsValid() {
		taken["--machine-cidr"] = []netip.Prefix{o.machineNetwork}
	}
	for _, text := range o.balancerCIDRs {
		r, err := netip.ParsePrefix(text)
		if err != nil || r != r.Masked() || r.Addr().Is4In6() {
			return fmt.Errorf("--load-balancer-cidr must have ranges such as 192.0.2.0/28, not %q", text)
		}
		taken["--load-balancer-cidr"] = o.balancerPool
		for _, flag := range slices.Sorted(maps.Keys(taken)) {
			for _, other := range taken[flag] {
				if r.Overlaps(other) {
					return fmt.Errorf("--load-balancer-cidr %v overlaps %v of %s", r, other, flag)
				}
			}
		}
		o.balancerPool = append(o.balancerPool, r)
	}
	return nil
}

// autoBits is the prefix length of the ranges that auto chooses from.
const autoBits = 16

// network reads --cluster-cidr, and returns how many nodes it has room for.
func (o *options) network() (maxNodes int, err error) {
	if o.machineCIDR != autoCIDR {
		o.machineNetwork, err = netip.ParsePrefix(o.machineCIDR)
		if err != nil || !o.machineNetwork.Addr().Is4() || o.machineNetwork.Bits() > maxMachineBits {
			return 0, fmt.Errorf("--machine-cidr must be %s or an IPv4 range of at least a /%d, not %q", autoCIDR, maxMachineBits, o.machineCIDR)
		}
		o.machineNetwork = o.machineNetwork.Masked()
	}
	if o.clusterCIDR == autoCIDR {
		return 1 << (nodeBits - autoBits), nil
	}
	network, err := netip.ParsePrefix(o.clusterCIDR)
	if err != nil || !network.Addr().Is4() || network.Bits() > nodeBits {
		return 0, fmt.Errorf("--cluster-cidr must be %s or an IPv4 range of at least a /%d, not %q", autoCIDR, nodeBits, o.clusterCIDR)
	}
	o.podNetwork = network.Masked()
	return 1 << (nodeBits - network.Bits()), nil
}

func (o *options) absolute() error {
	if o.kubeconfig == "" {
		o.kubeconfig = filepath.Join(o.dataDir, "admin.kubeconfig")
	}
	if o.imageCache == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = o.dataDir
		}
		o.imageCache = filepath.Join(cache, "planekit")
	}
	paths := []*string{&o.dataDir, &o.kubeconfig, &o.imageCache}
	if o.manifestPath != "" {
		paths = append(paths, &o.manifestPath)
	}
	for _, path := range paths {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	return nil
}

// maxMachineBits is the longest prefix of the range of machines: it has room for one beside this one.
const maxMachineBits = 30

// nodeBits is the prefix length of a node's addresses.
const nodeBits = 24
