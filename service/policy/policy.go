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
// pod reaches itself, pods in the network of their node are neither protected nor selected, and a change
// does not end connections that exist. Policies are checked after a service was translated, so that
// they see the address of the pod.
//
// Packets between pods at one bridge are checked only if net.bridge.bridge-nf-call-iptables is 1; an
// enforcer that finds another value logs it.
//
// The table is compared and repaired as that of package proxy. The rules stay when the enforcer ends,
// until [Enforcer.Remove]. Every change looks at all policies and pods again, at most once in MinPeriod;
// what is written is the difference.
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
	kernel  *ruleset.Kernel
	keeper  *ruleset.Keeper
	changed chan struct{}
	ready   chan struct{}
	once    sync.Once // closes ready
	// owners has the owners of the fragments that were put. It belongs to the goroutine of Run.
	owners map[string]bool
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
	c.Table = cmp.Or(c.Table, DefaultTable)
	kernel, err := ruleset.NewKernel(c.Table, c.Node)
	if err != nil {
		return nil, err
	}
	return &Enforcer{Config: c, kernel: kernel, keeper: ruleset.NewKeeper(kernel, c.Log), owners: map[string]bool{},
		changed: make(chan struct{}, 1), ready: make(chan struct{})}, nil
}

// Ready is closed once the rules of all policies have been written.
func (e *Enforcer) Ready() <-chan struct{} { return e.ready }

// Run keeps the rules until ctx ends, and then returns nil and leaves them. It returns an error at once
// if the namespace cannot be entered, or if another process keeps the table. It must be called once.
func (e *Enforcer) Run(ctx context.Context) error {
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
		return e.kernel.Delete(ctx)
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

// sayUnseen logs which packets the kernel does not show to rules.
func (e *Enforcer) sayUnseen() {
	for _, name := range bridgeFiles {
		data, err := os.ReadFile("/proc/sys/net/bridge/" + name)
		if err != nil || strings.TrimSpace(string(data)) != "1" {
			e.Log.Info("policies do not act between pods at one bridge: load br_netfilter and set the sysctl to 1", "sysctl", "net.bridge."+name)
		}
	}
}

func (e *Enforcer) run(ctx context.Context) error {
	lock, err := e.kernel.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	e.sayUnseen()
	for _, stop := range []func(){
		e.Policies.Subscribe(func(_, _ *networkingv1.NetworkPolicy) { e.notify() }).Stop,
		e.Pods.Subscribe(func(old, new *corev1.Pod) {
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
		case <-check.C:
			e.check(ctx)
		}
	}
}

// write makes the rules like the world, and returns when the next write may begin.
func (e *Enforcer) write(ctx context.Context) time.Duration {
	w := World{Node: e.Node, Policies: slices.Collect(e.Policies.All()), Pods: slices.Collect(e.Pods.All()), Namespaces: map[string]*corev1.Namespace{}}
	for n := range e.Namespaces.All() {
		w.Namespaces[n.Name] = n
	}
	fragments := w.Fragments()
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
	if err := e.keeper.Commit(ctx, change); err != nil {
		if ctx.Err() == nil {
			e.Log.Error(err, "could not write the rules of policies")
		}
		e.notify()
		return max(e.MinPeriod, retryPeriod)
	}
	e.once.Do(func() { close(e.ready) })
	return e.MinPeriod
}

// check repairs the table if another program changed it.
func (e *Enforcer) check(ctx context.Context) {
	select {
	case <-e.ready:
	default:
		return
	}
	repaired, err := e.keeper.Check(ctx)
	if err != nil && ctx.Err() == nil {
		e.Log.Error(err, "could not check the rules of policies")
	}
	if repaired > 0 {
		e.Log.Info("repaired rules of policies that another program had changed", "parts", repaired)
	}
}
