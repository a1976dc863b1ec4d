//go:build linux

// Package overlays makes the nodes of a cluster the members of an overlay, see package overlay. The
// ranges of a member are the podCIDRs of its Node object. What other nodes need to know of its backend
// is in annotations of the object, which each node writes for itself.
//
//	nodes, err := overlays.New(overlays.Config{Node: name, Nodes: cache, Writer: typed.Nodes(api)})
//	local, err := nodes.Local(ctx) // waits for podCIDRs
//	o, err := overlay.New(overlay.Config{Local: local, Members: nodes, Publish: nodes.Publish})
//
// The annotations are those of constants below. They cannot change ranges. A Node whose podCIDRs,
// addresses or annotations are invalid is refused by name: see [overlay.Overlay.Refused]. Of two nodes
// that claim the same, the older keeps it.
//
// [LeaseStore] lets package leases keep its leases in a storage.Store, for overlays without Node
// objects.
package overlays

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/localcache"
)

// The annotations of a Node.
const (
	// BackendAnnotation has the name of the backend that the node runs.
	BackendAnnotation = "overlay.planekit.dev/backend"
	// DataAnnotation has the JSON form of overlay.Data.
	DataAnnotation = "overlay.planekit.dev/backend-data"
	// AddressesAnnotation has the addresses of the node in the underlay, at most one of each family,
	// with a comma between them. Without it, they are those of type InternalIP.
	AddressesAnnotation = "overlay.planekit.dev/addresses"
)

// A Patcher writes Node objects. A client.Resource[*corev1.Node] is one.
type Patcher interface {
	Patch(ctx context.Context, namespace, name string, kind types.PatchType, data []byte, subresource ...string) (*corev1.Node, error)
}

// Config configures [Nodes].
type Config struct {
	// Node is the name of the local node.
	Node string
	// Nodes is a running cache of all nodes.
	Nodes localcache.ReadSubscriber[*corev1.Node]
	// Writer writes the annotations of the local node.
	Writer Patcher
	// Log gets failures to restore annotations.
	Log logr.Logger
}

// Nodes is a source of members and publishes the local one. Its methods are safe for concurrent use.
type Nodes struct {
	c Config

	mu        sync.Mutex
	published map[string]string // guarded by mu: the annotations of the local node
}

// New returns the nodes of a cache.
func New(c Config) (*Nodes, error) {
	switch {
	case c.Node == "":
		return nil, errors.New("overlays: Node: missing")
	case c.Nodes == nil:
		return nil, errors.New("overlays: Nodes: missing")
	case c.Writer == nil:
		return nil, errors.New("overlays: Writer: missing")
	}
	if c.Log.GetSink() == nil {
		c.Log = logr.Discard()
	}
	return &Nodes{c: c}, nil
}

// Local waits until the local node has podCIDRs and returns it as a member, without a backend. It fails
// if the podCIDRs or addresses of the node are invalid, and with the error of ctx.
func (n *Nodes) Local(ctx context.Context) (overlay.Member, error) {
	changed := make(chan struct{}, 1) // one request to look again
	subscription := n.c.Nodes.Subscribe(func(_, node *corev1.Node) {
		if node != nil && node.Name == n.c.Node {
			wake(changed)
		}
	})
	defer subscription.Stop()
	for {
		if node, ok := n.c.Nodes.Get(n.c.Node); ok && len(ranges(node)) > 0 {
			m := overlay.Member{Name: node.Name}
			var err error
			if m.Subnets, err = subnets(node); err == nil {
				m.Address, m.Address6, err = internalIPs(node)
			}
			if err != nil {
				return overlay.Member{}, fmt.Errorf("node %s: %w", node.Name, err)
			}
			return m, nil
		}
		select {
		case <-ctx.Done():
			return overlay.Member{}, fmt.Errorf("node %s has no podCIDRs: %w", n.c.Node, ctx.Err())
		case <-changed:
		}
	}
}

func wake(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// Publish writes the backend, its data and the addresses of the local member to annotations of its
// Node. From then on Follow restores them when they are changed.
func (n *Nodes) Publish(ctx context.Context, m overlay.Member) error {
	if m.Name != n.c.Node {
		return fmt.Errorf("overlays: member %s is not the node %s", m.Name, n.c.Node)
	}
	data, err := json.Marshal(m.Data)
	if err != nil {
		return err
	}
	var addresses []string
	for _, a := range []netip.Addr{m.Address, m.Address6} {
		if a.IsValid() {
			addresses = append(addresses, a.String())
		}
	}
	n.mu.Lock()
	n.published = map[string]string{
		BackendAnnotation: m.Backend, DataAnnotation: string(data), AddressesAnnotation: strings.Join(addresses, ","),
	}
	n.mu.Unlock()
	return n.restore(ctx)
}

// restore writes the published annotations unless the node has them.
func (n *Nodes) restore(ctx context.Context) error {
	n.mu.Lock()
	want := n.published
	n.mu.Unlock()
	node, ok := n.c.Nodes.Get(n.c.Node)
	if ok && has(node, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": want}})
	if err != nil {
		return err
	}
	if _, err := n.c.Writer.Patch(ctx, "", n.c.Node, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("annotate node %s: %w", n.c.Node, err)
	}
	return nil
}

// has reports whether a node has all the annotations.
func has(node *corev1.Node, annotations map[string]string) bool {
	for key, value := range annotations {
		if got, ok := node.Annotations[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// entry is a member with what decides its precedence.
type entry struct {
	member  overlay.Member
	created int64 // seconds since 1970
}

// Follow reports the members until ctx is done.
func (n *Nodes) Follow(ctx context.Context, set func([]overlay.Member)) error {
	var mu sync.Mutex
	entries := make(map[string]entry) // guarded by mu
	changed := make(chan struct{}, 1) // one request to look again
	lost := make(chan struct{}, 1)    // one request to restore annotations
	subscription := n.c.Nodes.Subscribe(func(old, node *corev1.Node) {
		mu.Lock()
		defer mu.Unlock()
		if node == nil {
			delete(entries, old.Name)
			wake(changed)
			return
		}
		if node.Name == n.c.Node && old != nil {
			wake(lost)
		}
		e := entry{member: memberOf(node), created: node.CreationTimestamp.Unix()}
		if before, ok := entries[node.Name]; ok && reflect.DeepEqual(before, e) {
			return
		}
		entries[node.Name] = e
		wake(changed)
	})
	defer subscription.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-subscription.CaughtUp:
	}
	wake(changed) // also if there are no nodes
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			if err := n.restore(ctx); err != nil {
				n.c.Log.Error(err, "The annotations of the local node are not restored")
			}
		case <-changed:
			mu.Lock()
			all := inOrder(entries)
			mu.Unlock()
			set(all)
		}
	}
}

// inOrder returns the members, the oldest first.
func inOrder(entries map[string]entry) []overlay.Member {
	all := make([]entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.member.Name, b.member.Name))
	})
	members := make([]overlay.Member, len(all))
	for i, e := range all {
		members[i] = e.member
		members[i].Subnets = slices.Clone(e.member.Subnets)
	}
	return members
}
