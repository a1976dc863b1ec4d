// Package policy keeps the rules of NetworkPolicies for the pods of a node in nftables.
//
//	e, err := policy.New(policy.Config{Node: "node-1", Policies: policies, Pods: pods, Namespaces: namespaces})
//	err = e.Run(ctx) // e.Ready() is closed once all policies hold
//
// [Allowed] defines what policies mean: ingress and egress, selectors of pods and namespaces, address
// blocks with exceptions, ports by number, range and name. A pod that a policy selects receives and
// sends only what some policy allows; what is not allowed is dropped. [World.Fragments] makes rules of
// the same policies: sets with the addresses of peers, and chains of the node's pods. The change of a
// pod elsewhere changes elements of sets alone.
//
// As with Kubernetes' policies everywhere, traffic between a pod and its own node is always allowed, a
// pod reaches itself, and pods in the network of their node are neither protected nor selected. Policies are checked after
// a service was translated, so that they see the address of the pod. Each packet is checked, also those of
// connections that exist: a change ends what it does not allow.
//
// With [Config.Bridges], what is not known is closed: between the pods of the node, and between them and others, only
// packets pass whose address on the side of the pod is one of a pod that the enforcer knows. So a pod that
// starts is closed until its rules are in the kernel, and link-local addresses, multicast, broadcast and frames that are
// not IP lead from no pod to another. A pod opens only [Config].Connections. [Enforcer.Admit] returns once the rules of a pod hold.
//
// Packets between pods at one bridge are checked only if net.bridge.bridge-nf-call-iptables is 1. An
// enforcer sets it, and logs that it could not.
//
// The tables are compared and repaired as that of package proxy. The rules stay when the enforcer ends,
// until [Enforcer.Remove]. Every change looks at all policies and pods again, at most once in MinPeriod but for
// Admit; what is written is the difference.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Defaults of [Config].
const (
	DefaultTable       = "planekit-policies"
	DefaultMinPeriod   = 100 * time.Millisecond
	DefaultCheckPeriod = time.Second
	// DefaultConnections is a sixteenth of the table that most kernels have, of 262144 connections.
	DefaultConnections = 16384
	// retryPeriod is when a failed write is tried again.
	retryPeriod = time.Second
)

// Config describes an [Enforcer].
type Config struct {
	// Node is the name of the node whose pods are protected. It is required.
	Node string
	// Policies, Pods and Namespaces are caches of the whole cluster. They are required.
	Policies   localcache.ListSubscriber[*networkingv1.NetworkPolicy]
	Pods       localcache.ListSubscriber[*corev1.Pod]
	Namespaces localcache.ListSubscriber[*corev1.Namespace]
	// Bridges are the names of the bridges that connect the pods of the node. They need not exist yet. Without any, pods that are
	// not known are open, and only what has an address of a pod is checked.
	Bridges []string
	// Connections limits the connections that a pod may have open with others in each family, TCP ones that are closing apart.
	// Further ones are dropped, so that a pod does not fill the node's table of connections. It needs Bridges. 0 means
	// [DefaultConnections], less than 0 that there is no limit.
	//
	// The kernel goes through a pod's connections when it opens another one: at 16384 that costs 0.25 ms, at 4096 0.04 ms.
	Connections int
	// Overrun is called with a policy that allows less than it says because the policies of its namespace are too much for a
	// node, and the reason. It must not block, and may be nil.
	Overrun func(p *networkingv1.NetworkPolicy, reason string)
	// MinPeriod is the least time between two writes; 0 means [DefaultMinPeriod]. The first is at once.
	MinPeriod time.Duration
	// CheckPeriod is how often the kernel is asked whether another program changed its tables; 0 means
	// [DefaultCheckPeriod].
	CheckPeriod time.Duration
	// Table names the table in the kernel; empty means [DefaultTable].
	Table string
	// Namespace is the path of the network namespace of the node; empty means that of the process.
	Namespace string
	Log       logr.Logger
}

// Enforcer keeps the rules of a node. Its methods are safe for concurrent use.
type Enforcer struct {
	Config
	kernel *ruleset.Kernel
	keeper *ruleset.Keeper
	// owners has the owners of the fragments that were put. It belongs to the goroutine of Run.
	owners  map[string]bool
	changed chan struct{}
	ready   chan struct{}
	once    sync.Once // closes ready
	// bridge is the table of family bridge, and frames its keeper; nil without bridges.
	bridge *ruleset.Kernel
	frames *ruleset.Keeper
	// reported are the policies that were passed to Overrun, with the reasons. It belongs to the goroutine of Run.
	reported map[string]string
	// urgent holds a token when a pod waits to be admitted. ended is closed when Run returns.
	urgent, ended chan struct{}

	mu       sync.Mutex
	admitted admissions // guarded by mu
}

// New checks a configuration and returns an Enforcer that does nothing yet.
func New(c Config) (*Enforcer, error) {
	if c.Node == "" || c.Policies == nil || c.Pods == nil || c.Namespaces == nil {
		return nil, errors.New("policy: Node, Policies, Pods and Namespaces are required")
	}
	if c.MinPeriod < 0 || c.CheckPeriod < 0 {
		return nil, fmt.Errorf("policy: MinPeriod, CheckPeriod: %v, %v: negative", c.MinPeriod, c.CheckPeriod)
	}
	c.MinPeriod, c.CheckPeriod = cmp.Or(c.MinPeriod, DefaultMinPeriod), cmp.Or(c.CheckPeriod, DefaultCheckPeriod)
	c.Connections = cmp.Or(c.Connections, DefaultConnections)
	c.Table = cmp.Or(c.Table, DefaultTable)
	kernel, err := ruleset.NewKernel(c.Table, c.Node)
	if err != nil {
		return nil, err
	}
	e := &Enforcer{
		Config: c, kernel: kernel, keeper: ruleset.NewKeeper(kernel, c.Log), owners: map[string]bool{},
		changed: make(chan struct{}, 1), ready: make(chan struct{}), urgent: make(chan struct{}, 1), ended: make(chan struct{}),
		admitted: admissions{byKey: map[string]admission{}},
	}
	if len(c.Bridges) > 0 {
		if e.bridge, err = ruleset.NewBridgeKernel(c.Table, c.Node); err != nil {
			return nil, err
		}
		e.frames = ruleset.NewKeeper(e.bridge, c.Log)
	}
	return e, nil
}

// Ready is closed once the rules of all policies have been written.
func (e *Enforcer) Ready() <-chan struct{} { return e.ready }

// Run keeps the rules until ctx ends, and then returns nil and leaves them. It returns an error at once
// if the namespace cannot be entered, or if another process keeps the table. It must be called once.
func (e *Enforcer) Run(ctx context.Context) error {
	defer close(e.ended)
	return e.within(func() error { return e.run(ctx) })
}

// Remove removes the rules for good, so that all pods reach each other. Run must have returned.
func (e *Enforcer) Remove(ctx context.Context) error {
	return e.within(func() error {
		lock, err := e.kernel.Lock()
		if err != nil {
			return err
		}
		defer lock.Close()
		err = e.kernel.Delete(ctx)
		if e.bridge != nil {
			if failed := e.bridge.Delete(ctx); !errors.Is(failed, errors.ErrUnsupported) { // without the family there is no table
				err = errors.Join(err, failed)
			}
		}
		return err
	})
}

// within calls work in the network namespace of the node.
func (e *Enforcer) within(work func() error) error {
	if e.Namespace == "" {
		return work()
	}
	done := make(chan error, 1) // one answer
	go func() {
		// The thread ends with the goroutine, so that nothing else runs in the namespace.
		runtime.LockOSThread()
		if err := ruleset.EnterNamespace(e.Namespace); err != nil {
			done <- fmt.Errorf("enter the network namespace %s: %w", e.Namespace, err)
			return
		}
		done <- work()
	}()
	return <-done
}

// bridgeFiles say whether rules see frames between the ports of a bridge.
var bridgeFiles = []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"}

// showBridges makes the kernel show rules the packets between the ports of a bridge, and logs which it does not.
func (e *Enforcer) showBridges() {
	for _, name := range bridgeFiles {
		path := "/proc/sys/net/bridge/" + name
		data, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(data)) != "1" {
			err = os.WriteFile(path, []byte("1"), 0)
		}
		if err != nil {
			e.Log.Info("policies do not act on packets that stay on a bridge: load br_netfilter and set the sysctl to 1", "sysctl", "net.bridge."+name, "error", err.Error())
		}
	}
}

func (e *Enforcer) run(ctx context.Context) error {
	lock, err := e.kernel.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	e.showBridges()
	for _, stop := range []func(){
		e.Policies.Subscribe(func(_, _ *networkingv1.NetworkPolicy) { e.notify() }).Stop,
		e.Pods.Subscribe(func(old, new *corev1.Pod) {
			if old != nil && (new == nil || !hasNetwork(new)) {
				e.mu.Lock()
				e.admitted.forget(old)
				e.mu.Unlock()
			}
			if old == nil || new == nil || !alike(old, new) {
				e.notify()
			}
		}).Stop,
		e.Namespaces.Subscribe(func(old, new *corev1.Namespace) {
			if old == nil || new == nil || !maps.Equal(old.Labels, new.Labels) {
				e.notify()
			}
		}).Stop,
	} {
		defer stop()
	}
	for _, synced := range []<-chan struct{}{e.Policies.Synced(), e.Pods.Synced(), e.Namespaces.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	e.loop(ctx)
	return nil
}

func (e *Enforcer) notify() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// alike reports whether two states of a pod are the same to policies.
func alike(a, b *corev1.Pod) bool {
	return maps.Equal(a.Labels, b.Labels) && a.Spec.NodeName == b.Spec.NodeName && slices.Equal(addresses(a), addresses(b))
}

// loop writes changes as they come, and looks after the table.
func (e *Enforcer) loop(ctx context.Context) {
	next := time.NewTimer(0) // when the next write may begin
	defer next.Stop()
	check := time.NewTicker(e.CheckPeriod)
	defer check.Stop()
	var changed chan struct{}
	e.notify() // a world without policies is written, too
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			changed = e.changed
		case <-changed:
			changed = nil
			next.Reset(e.write(ctx))
		case <-e.urgent:
			changed = nil
			next.Reset(e.write(ctx))
		case <-check.C:
			e.check(ctx)
		}
	}
}

// write makes the rules like the world, and returns when the next write may begin.
func (e *Enforcer) write(ctx context.Context) time.Duration {
	w, waiting := e.world()
	fragments, over := w.fragments()
	e.report(w, over)
	change := &ruleset.Change{}
	for _, owner := range slices.Sorted(maps.Keys(e.owners)) {
		if _, stays := fragments[owner]; !stays {
			e.keeper.Model.Put(owner, "", ruleset.Fragment{}, change)
			delete(e.owners, owner)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(fragments)) {
		e.keeper.Model.Put(owner, "", fragments[owner], change)
		e.owners[owner] = true
	}
	err := e.keeper.Commit(ctx, change)
	if err == nil && e.frames != nil {
		err = e.writeFrames(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			e.Log.Error(err, "could not write the rules of policies")
		}
		e.mu.Lock()
		e.admitted.waiting = append(e.admitted.waiting, waiting...)
		e.mu.Unlock()
		e.notify()
		return max(e.MinPeriod, retryPeriod)
	}
	for _, admitted := range waiting {
		close(admitted)
	}
	e.once.Do(func() { close(e.ready) })
	return e.MinPeriod
}

// report passes policies that allow less than they say to Config.Overrun, each once for a reason.
func (e *Enforcer) report(w World, over map[string]string) {
	for _, p := range w.Policies {
		reason, ok := over[keyOf(p)]
		if !ok || reason == e.reported[keyOf(p)] {
			continue
		}
		e.Log.Info("a policy allows less than it says", "policy", keyOf(p), "reason", reason)
		if e.Overrun != nil {
			e.Overrun(p, reason)
		}
	}
	e.reported = over
}

// writeFrames makes the table of family bridge like the bridges.
func (e *Enforcer) writeFrames(ctx context.Context) error {
	var ports []string
	for _, bridge := range e.Bridges {
		some, err := ruleset.BridgePorts(bridge)
		if err != nil {
			return err
		}
		ports = append(ports, some...)
	}
	change := &ruleset.Change{}
	e.frames.Model.Put("", "", frames(ports), change)
	err := e.frames.Commit(ctx, change)
	if errors.Is(err, errors.ErrUnsupported) { // the others are in force without it
		e.Log.Error(err, "frames between pods that are not IP are not dropped: nftables of this kernel has no family bridge")
		e.frames = nil
		return nil
	}
	return err
}

// check repairs the table if another program changed it.
func (e *Enforcer) check(ctx context.Context) {
	select {
	case <-e.ready:
	default:
		return
	}
	repaired, err := e.keeper.Check(ctx)
	if e.frames != nil {
		more, failed := e.frames.Check(ctx)
		failed = errors.Join(failed, e.writeFrames(ctx)) // there may be other ports
		repaired, err = repaired+more, errors.Join(err, failed)
	}
	if err != nil && ctx.Err() == nil {
		e.Log.Error(err, "could not check the rules of policies")
	}
	if repaired > 0 {
		e.Log.Info("repaired rules of policies that another program had changed", "parts", repaired)
	}
}
