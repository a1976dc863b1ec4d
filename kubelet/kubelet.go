package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/admission"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/images"
	"github.com/planekit/planekit/kubelet/internal/abilities"
	"github.com/planekit/planekit/kubelet/internal/allocation"
	"github.com/planekit/planekit/kubelet/internal/bucket"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/events"
	"github.com/planekit/planekit/kubelet/internal/gate"
	"github.com/planekit/planekit/kubelet/internal/hostinfo"
	"github.com/planekit/planekit/kubelet/internal/mirror"
	"github.com/planekit/planekit/kubelet/internal/nodestatus"
	"github.com/planekit/planekit/kubelet/internal/pause"
	"github.com/planekit/planekit/kubelet/internal/podcgroups"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/podnetwork"
	"github.com/planekit/planekit/kubelet/internal/relist"
	"github.com/planekit/planekit/kubelet/internal/stoppods"
	"github.com/planekit/planekit/kubelet/internal/tokens"
	"github.com/planekit/planekit/kubelet/internal/turns"
	"github.com/planekit/planekit/kubelet/internal/userns"
	"github.com/planekit/planekit/kubelet/logs"
	"github.com/planekit/planekit/kubelet/volumes"
	"github.com/planekit/planekit/kubelet/volumestats"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// DefaultSyncPeriod is the interval at which a pod is synced without an event, unless Config.SyncPeriod
// says otherwise.
const DefaultSyncPeriod = 20 * time.Second

// podUID is a short name for signatures.
type podUID = types.UID

// Kubelet runs the pods of one node.
type Kubelet struct {
	config    *Config
	pods      *localcache.Overlay[*corev1.Pod]
	mirrors   *mirror.Keeper // nil without an API server
	log       logr.Logger
	cgroups   cgroup.FS
	groups    *podcgroups.Groups
	host      hostinfo.Info
	events    *events.Recorder
	tokens    *tokens.Cache
	volumes   *volumes.Set
	usage     *volumestats.Meter // of volumes
	rotator   *logs.Rotator      // may be nil
	evictor   *evictor
	collector *images.Collector // may be nil
	puller    *puller
	cpus      *cpumanager.Manager
	podConfig *podconfig.Builder
	abilities abilities.Set
	// allocations are the resources that pods have been allocated.
	allocations *allocation.Manager
	ready       chan struct{}
	running     atomic.Bool
	// since is when Run began.
	since time.Time
	// runtimeName is the scheme of container IDs. It is set before the first pod is synced.
	runtimeName    string
	runtimeVersion string
	network        *podnetwork.Gate
	gate           *gate.Gate
	turns          *turns.Turns
	// handlers decide about pods. They are set before the first pod is synced.
	handlers []admission.Handler
	// node is the Node as last read or written, with the status of this kubelet.
	node         atomic.Pointer[corev1.Node]
	images       *nodestatus.ImageList
	shuttingDown atomic.Bool
	lister       *relist.Lister
	stopper      *stoppods.Stopper
	report       chan struct{} // of size 1: the Node must be reported now

	mu sync.Mutex
	// mu guards the fields below.
	workers map[podUID]*worker
}

// New returns a kubelet. It starts nothing and does not touch the disk.
func New(c Config) (*Kubelet, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	k := &Kubelet{
		config:  &c,
		log:     c.Log,
		cgroups: cgroup.FS{Mount: c.CgroupMount, CPU: c.Cgroups.cpu()},
		tokens:  tokens.New(tokens.Request(c.Tokens)),
		turns:   turns.New(startsPerProcessor*runtime.NumCPU(), startPatience),
		usage:   volumestats.New(c.VolumeStatsPeriod),
		ready:   make(chan struct{}),
		report:  make(chan struct{}, 1),
		workers: map[podUID]*worker{},
	}
	k.groups = k.newGroups()
	k.sources()
	k.events = events.New(c.Events, c.NodeName, c.Log)
	k.events.Rate = bucket.New(c.EventRate.PerSecond, c.EventRate.Burst)
	k.podConfig = &podconfig.Builder{
		NodeName: c.NodeName, HostName: c.HostName, HostIPs: c.hostIPs(), Root: c.Root, LogRoot: c.LogRoot,
		ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain, ResolvConf: c.ResolvConf,
		Handler: k.runtimeHandler, Abilities: &k.abilities, UserNamespaces: userns.New(filepath.Join(c.Root, "pods")), HugePageSizes: k.hugePageSizes, KillTogether: k.killsTogether, SeccompDefault: c.SeccompDefault,
		Capacity: k.capacity, Cgroup: k.podCgroup, CPU: c.Cgroups.cpu(), Services: c.Services, Secrets: c.Secrets, ConfigMaps: c.ConfigMaps, Log: c.Log,
	}
	var err error
	if k.volumes, err = k.newVolumes(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	k.allocations = k.newAllocations()
	k.puller = k.newPuller()
	k.stopper, k.images, k.network = k.newStopper(), k.newImageList(), k.newNetwork()
	k.lister = relist.New(relist.Config{
		Runtime: c.Runtime, NodeName: c.NodeName, SyncPeriod: c.SyncPeriod, Listed: c.Meters.Relisted, Log: c.Log,
		Changed: k.wakeUnlessSeen, Wake: k.wake, WakeAll: k.wakeAll,
	})
	k.evictor = newEvictor(k)
	k.gate = gate.New(k.admissionNode, func() []admission.Handler { return k.handlers })
	k.gate.Allocated = k.allocations.Allocated
	if k.collector, err = k.newCollector(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if k.rotator, err = k.newRotator(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if k.cpus, err = k.newCPUs(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	return k, nil
}

// Ready returns a channel that is closed when the Node was first reported ready.
func (k *Kubelet) Ready() <-chan struct{} { return k.ready }

// Run registers the node and runs its pods until ctx is done. Unless Config.StopPodsOnExit is set,
// the pods keep running when it returns. It may be called once.
func (k *Kubelet) Run(ctx context.Context) (err error) {
	if !k.running.CompareAndSwap(false, true) {
		return errors.New("kubelet: run twice")
	}
	if err := k.config.Require.check(k.cgroups); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	if err := k.config.makeRoots(); err != nil {
		return err
	}
	if err := k.shareRoot(); err != nil {
		return err
	}
	if err := k.cpus.Start(); err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	k.since = time.Now()
	k.host = hostinfo.Read(k.config.Root, k.config.Capacity, k.config.PodsPerCore, version)
	limits := &nodeLimits{k}
	if err := limits.checkReserved(); err != nil {
		return err
	}
	limited, err := limits.enforce()
	if err != nil {
		return err
	}
	if k.handlers, err = k.admissionHandlers(); err != nil {
		return err
	}
	if !k.awaitRuntime(ctx) {
		return nil
	}
	if k.config.StopPodsOnExit {
		// This runs last, when no worker can start anything.
		defer func() {
			select {
			case <-k.config.Leave:
				return
			default:
			}
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.config.StopGrace+time.Minute)
			defer cancel()
			err = errors.Join(err, k.StopPods(stop))
		}()
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { k.events.Run(ctx) })
	group.Go(func() { k.pods.Run(ctx) })
	group.Go(func() { k.keepCgroups(ctx, limits, limited) })
	static := k.config.StaticPods != nil
	if static { // they do not wait for the API server
		group.Go(func() { k.network.Run(ctx) })
		if !k.restore(ctx) {
			return nil
		}
		defer k.follow(ctx, &group).Stop()
	}
	if !k.join(ctx, &group) {
		return nil
	}
	if !static {
		group.Go(func() { k.network.Run(ctx) })
	}
	select {
	case <-k.pods.Synced():
	case <-ctx.Done():
		return nil
	}
	if !static {
		if !k.restore(ctx) {
			return nil
		}
		defer k.follow(ctx, &group).Stop()
	}
	(&housekeeper{k}).run(ctx, &group)
	return nil
}

// join registers the node and starts the loops that report it. It returns false if ctx is done
// before.
func (k *Kubelet) join(ctx context.Context, group *sync.WaitGroup) bool {
	if k.config.standalone() {
		group.Go(func() { k.reportNode(ctx) })
		return true
	}
	if !k.register(ctx) {
		return false
	}
	k.events.Node(corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	group.Go(func() { k.newLease().Run(ctx) })
	group.Go(func() { k.reportNode(ctx) })
	group.Go(func() { k.mirrors.Run(ctx) })
	return true
}

// awaitRuntime waits for the runtime and reads its name. It returns false if ctx is done before.
func (k *Kubelet) awaitRuntime(ctx context.Context) bool {
	return pause.Retry(ctx, k.log, "runtime does not answer", func() error {
		v, err := k.config.Runtime.Version(ctx, &runtimeapi.VersionRequest{Version: "v1"})
		if err == nil {
			k.runtimeName, k.runtimeVersion = v.GetRuntimeName(), v.GetRuntimeVersion()
		}
		return err
	})
}

// podChanged handles an event of an existing pod. It does not block.
func (k *Kubelet) podChanged(ctx context.Context, group *sync.WaitGroup, pod *corev1.Pod) {
	if pod.Spec.NodeName != k.config.NodeName {
		return
	}
	if err := checkNames(pod); err != nil {
		k.log.Error(err, "ignoring pod", "pod", pod.Namespace+"/"+pod.Name)
		return
	}
	if !k.has(pod.UID) {
		k.enter(pod)
	}
	w := k.worker(ctx, group, pod)
	w.update(pod)
	k.config.Meters.meterStart(w.startup, pod)
}

// checkNames refuses names that lead out of the directories and cgroups of the pod, or are those of the
// directories above. An API server never stores such a pod, but a manifest may have any UID.
func checkNames(pod *corev1.Pod) error {
	names := []string{string(pod.UID), pod.Name, pod.Namespace}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	for i := range pod.Spec.Volumes {
		names = append(names, pod.Spec.Volumes[i].Name)
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || name == "." || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return fmt.Errorf("%q is not a name", name)
	}
	return nil
}

// podGone handles the deletion of a pod.
func (k *Kubelet) podGone(pod *corev1.Pod) {
	if w := k.find(pod.UID); w != nil {
		w.forget()
	}
}

// worker returns the worker of a pod, and starts it if there is none.
func (k *Kubelet) worker(ctx context.Context, group *sync.WaitGroup, pod *corev1.Pod) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.workers[pod.UID]
	if w == nil {
		w = newWorker(k, pod)
		k.workers[pod.UID] = w
		group.Go(func() { w.run(ctx) })
	}
	return w
}

// wake requests a sync of a pod.
func (k *Kubelet) wake(uid podUID) {
	if w := k.find(uid); w != nil {
		w.poke()
	}
}

// wakeAll requests a sync of all pods.
func (k *Kubelet) wakeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		w.poke()
	}
}

func (k *Kubelet) capacity() corev1.ResourceList { return k.host.Capacity }

// wakeUnlessSeen requests a sync of a pod unless its worker has seen the same itself, for example what
// it has just done.
func (k *Kubelet) wakeUnlessSeen(uid podUID, digest string) {
	if w := k.find(uid); w != nil && (digest == "" || w.observer.Seen() != digest) {
		w.poke()
	}
}

// hugePageSizes returns the sizes of huge pages in CRI's form.
func (k *Kubelet) hugePageSizes() []string {
	var sizes []string
	for _, pages := range k.host.HugePages {
		sizes = append(sizes, pages.Name())
	}
	return sizes
}
