package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Defaults of [Config].
const (
	DefaultTable     = "planekit-services"
	DefaultMarkBit   = 14
	DefaultMinPeriod = 100 * time.Millisecond
	// DefaultCheckPeriod is short: the question costs a few microseconds.
	DefaultCheckPeriod = time.Second
	// retryPeriod is when a failed write is tried again.
	retryPeriod = time.Second
)

// Config describes a [Proxy].
type Config struct {
	// Node is the name of the node whose kernel the rules are for. It is required.
	Node string
	// Services, EndpointSlices and Nodes are the caches that the rules follow. Of the nodes only Node is
	// read. They are required.
	Services       localcache.Subscriber[*corev1.Service]
	EndpointSlices localcache.Subscriber[*discoveryv1.EndpointSlice]
	Nodes          localcache.Subscriber[*corev1.Node]
	// PodRanges contain all pods of the cluster: traffic to a cluster address from elsewhere is
	// masqueraded, and pods reach all endpoints of a service whose external policy is Local. Empty turns
	// both off.
	PodRanges []netip.Prefix
	// ServiceRanges contain all cluster addresses. Connections to those that no service has are dropped.
	// Empty lets them pass.
	ServiceRanges []netip.Prefix
	// NodePortRanges selects the addresses of the node that serve node ports. Empty means the addresses
	// in the status of the node. Loopback addresses never do.
	NodePortRanges []netip.Prefix
	// MasqueradeAll masquerades all traffic to cluster addresses.
	MasqueradeAll bool
	// MarkBit is the bit of packets' marks that asks for masquerading, from 0 to 31; nil means
	// [DefaultMarkBit].
	MarkBit *int
	// MinPeriod is the least time between two writes: changes that come faster are written together.
	// The first is written at once. 0 means [DefaultMinPeriod].
	MinPeriod time.Duration
	// CheckPeriod is how often the kernel is asked whether another program changed its tables. 0 means
	// [DefaultCheckPeriod].
	CheckPeriod time.Duration
	// Table names the table in the kernel; empty means [DefaultTable].
	Table string
	// Namespace is the path of the network namespace of the node; empty means that of the process.
	Namespace string
	// Target is written instead of a table of the kernel, for tests.
	Target ruleset.Target
	// Events receives an event for a service that cannot be served as it says. Nil drops them.
	Events Recorder
	// Meters are called with measurements.
	Meters Meters
	Log    logr.Logger
}

// A Recorder records events about objects.
type Recorder interface {
	Event(service *corev1.Service, kind, reason, message string)
}

// Proxy keeps the rules of a node. Its methods are safe for concurrent use.
type Proxy struct {
	Config
	tracker *tracker
	target  ruleset.Target
	kernel  *ruleset.Kernel // nil with a Target
	keeper  *ruleset.Keeper
	ready   chan struct{}
	once    sync.Once // closes ready
	health  *health
	checks  *healthChecks
	// The fields below belong to the goroutine of Run.
	site    Site
	served  map[string]served
	noLocal noLocal
	full    fullTable

	mu sync.Mutex
	// node is the newest state of the node; nil before it was seen. Guarded by mu.
	node *corev1.Node
}

// served holds what was written of a service.
type served struct {
	noLocal noLocal
	flows   map[flowTarget]bool
}

// New checks a configuration and returns a Proxy that does nothing yet.
func New(c Config) (*Proxy, error) {
	if errs := validation.IsDNS1123Subdomain(c.Node); len(errs) > 0 {
		return nil, fmt.Errorf("proxy: Node: %q is not the name of a node", c.Node)
	}
	if c.Services == nil || c.EndpointSlices == nil || c.Nodes == nil {
		return nil, errors.New("proxy: Services, EndpointSlices and Nodes are required")
	}
	for field, ranges := range map[string][]netip.Prefix{"PodRanges": c.PodRanges, "ServiceRanges": c.ServiceRanges, "NodePortRanges": c.NodePortRanges} {
		for _, r := range ranges {
			if !r.IsValid() || r != r.Masked() || r.Addr().Is4In6() {
				return nil, fmt.Errorf("%s: %v is not the first address of a range", field, r)
			}
		}
	}
	bit := DefaultMarkBit
	if c.MarkBit != nil {
		bit = *c.MarkBit
	}
	if bit < 0 || bit > 31 {
		return nil, fmt.Errorf("proxy: MarkBit: %d is not from 0 to 31", bit)
	}
	if c.MinPeriod < 0 || c.CheckPeriod < 0 {
		return nil, fmt.Errorf("proxy: MinPeriod, CheckPeriod: %v, %v: negative", c.MinPeriod, c.CheckPeriod)
	}
	c.MinPeriod, c.CheckPeriod = cmp.Or(c.MinPeriod, DefaultMinPeriod), cmp.Or(c.CheckPeriod, DefaultCheckPeriod)
	if c.Table == "" {
		c.Table = DefaultTable
	}
	p := &Proxy{Config: c, target: c.Target, ready: make(chan struct{}), served: map[string]served{}}
	if p.target == nil {
		kernel, err := ruleset.NewKernel(c.Table, c.Node)
		if err != nil {
			return nil, err
		}
		p.kernel, p.target = kernel, kernel
	}
	p.keeper = ruleset.NewKeeper(p.target, c.Log)
	p.health = newHealth(p.Meters)
	p.tracker = newTracker(p.health.queued)
	p.checks = newHealthChecks(p.health.isHealthy, c.Events, c.Node, c.Log)
	p.site = Site{
		Node: c.Node, NodePortRanges: c.NodePortRanges, PodRanges: c.PodRanges, ServiceRanges: c.ServiceRanges,
		MasqueradeAll: c.MasqueradeAll, MarkBit: uint8(bit),
	}
	return p, nil
}

// Ready is closed once the rules of all services have been written.
func (p *Proxy) Ready() <-chan struct{} { return p.ready }

// Run keeps the rules until ctx ends, and then returns nil and leaves them: connections go on, and the
// next Run continues. It returns an error at once if the namespace cannot be entered, or if another
// process keeps the table. It must be called once.
func (p *Proxy) Run(ctx context.Context) error {
	return p.within(func() error { return p.run(ctx) })
}

// Remove removes the rules for good: connections through services end. Run must have returned.
func (p *Proxy) Remove(ctx context.Context) error {
	if p.kernel == nil {
		return nil
	}
	return p.within(func() error {
		lock, err := p.kernel.Lock()
		if err != nil {
			return err
		}
		defer lock.Close()
		return p.kernel.Delete(ctx)
	})
}

// within calls work in the network namespace of the node.
func (p *Proxy) within(work func() error) error {
	if p.Namespace == "" {
		return work()
	}
	done := make(chan error, 1) // one answer
	go func() {
		// The thread ends with the goroutine, so that nothing else runs in the namespace.
		runtime.LockOSThread()
		if err := ruleset.EnterNamespace(p.Namespace); err != nil {
			done <- fmt.Errorf("enter the network namespace %s: %w", p.Namespace, err)
			return
		}
		done <- work()
	}()
	return <-done
}

// bridgeFile says whether frames between the ports of a bridge are translated back.
const bridgeFile = "/proc/sys/net/bridge/bridge-nf-call-iptables"

func (p *Proxy) run(ctx context.Context) error {
	if p.kernel != nil {
		lock, err := p.kernel.Lock()
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	defer p.checks.close()
	if data, err := os.ReadFile(bridgeFile); err == nil && strings.TrimSpace(string(data)) == "0" {
		p.Log.Info("pods at one bridge cannot reach services that lead to each other: set net.bridge.bridge-nf-call-iptables to 1")
	}
	for _, stop := range []func(){
		p.Services.Subscribe(p.tracker.service).Stop, p.EndpointSlices.Subscribe(p.tracker.slice).Stop, p.Nodes.Subscribe(p.seeNode).Stop,
	} {
		defer stop()
	}
	// Rules of a part of the services would refuse connections that the kernel's rules still serve.
	for _, synced := range []<-chan struct{}{p.Services.Synced(), p.EndpointSlices.Synced(), p.Nodes.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	return p.loop(ctx)
}

// loop writes changes as they come, and looks after the table.
func (p *Proxy) loop(ctx context.Context) error {
	next := time.NewTimer(0) // when the next write may begin
	defer next.Stop()
	check := time.NewTicker(p.CheckPeriod)
	defer check.Stop()
	may := false
	for {
		changed := p.tracker.changed
		if !may {
			changed = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			may = true
			if !p.isReady() {
				may = p.write(ctx, next)
			}
		case <-changed:
			may = p.write(ctx, next)
		case <-check.C:
			p.check(ctx)
		}
	}
}

// write syncs, sets the timer for the next time and returns false.
func (p *Proxy) write(ctx context.Context, next *time.Timer) bool {
	wait := p.MinPeriod
	if err := p.sync(ctx); err != nil {
		if ctx.Err() == nil {
			p.Log.Error(err, "could not write the rules of services")
		}
		p.Meters.failed()
		wait = max(wait, retryPeriod)
		p.tracker.notify() // the model has what is missing
	}
	next.Reset(wait)
	return false
}

func (p *Proxy) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// seeNode notes the newest state of the node.
func (p *Proxy) seeNode(_, new *corev1.Node) {
	if new == nil || new.Name != p.Node {
		return
	}
	p.mu.Lock()
	before := p.node
	p.node = new
	p.mu.Unlock()
	p.health.setNode(new)
	if before == nil || zoneOf(before) != zoneOf(new) || !sameAddresses(before, new) {
		p.tracker.all()
	}
}

// check repairs the table if another program changed it.
func (p *Proxy) check(ctx context.Context) {
	p.full.check(p)
	if !p.isReady() {
		return
	}
	repaired, err := p.keeper.Check(ctx)
	if err != nil && ctx.Err() == nil {
		p.Log.Error(err, "could not check the rules of services")
	}
	if repaired > 0 {
		p.Log.Info("repaired rules of services that another program had changed", "parts", repaired)
		p.Meters.repaired(repaired)
	}
}
